#include "backends/cpu/scalar/attention.hpp"

#include <algorithm>
#include <vector>

#include "core/reduce.hpp"

namespace tandem::cpu {
namespace {

struct Block {
  float maximum = 0;
  float sum = 0;
  std::vector<float> values;
};

static_assert(kAttentionBlock <= num::kChains<float>, "one position a chain");

Block attend_block(const PageShape& shape, std::span<void* const> pages, std::int64_t head,
                   std::int64_t begin, std::int64_t end, float scale, const float* q) {
  const std::int64_t count = end - begin;
  std::vector<float> p(num::kChains<float>, 0.0f);
  for (std::int64_t j = 0; j < count; ++j) {
    p[static_cast<std::size_t>(j)] =
        num::dot(key_row(shape, pages, head, begin + j), q, shape.head_dim) * scale;
  }
  Block block;
  block.maximum = p[0];
  for (std::int64_t j = 1; j < count; ++j) {
    const float s = p[static_cast<std::size_t>(j)];
    block.maximum = s > block.maximum ? s : block.maximum;
  }
  block.values.assign(static_cast<std::size_t>(shape.head_dim), 0.0f);
  for (std::int64_t j = 0; j < count; ++j) {
    float& weight = p[static_cast<std::size_t>(j)];
    weight = num::exp(weight - block.maximum);
    const float* v = value_row(shape, pages, head, begin + j);
    for (std::size_t d = 0; d < block.values.size(); ++d)
      block.values[d] = num::fma(weight, v[d], block.values[d]);
  }
  block.sum = num::join_chains<float>(p.data());
  return block;
}

void join(Block& all, const Block& next) {
  const float maximum = next.maximum > all.maximum ? next.maximum : all.maximum;
  const float c = num::exp(all.maximum - maximum), d = num::exp(next.maximum - maximum);
  all.sum = num::fma(next.sum, d, all.sum * c);
  for (std::size_t i = 0; i < all.values.size(); ++i)
    all.values[i] = num::fma(next.values[i], d, all.values[i] * c);
  all.maximum = maximum;
}

}  // namespace

void rms_norm_row(std::int64_t n, const float* x, const float* weight, float eps, float* y) {
  const float r = num::inverse_sqrt(num::sum_of_squares(x, n) / static_cast<float>(n) + eps);
  for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] * r) * (1.0f + weight[i]);
}

void rotate_head(std::int64_t half, const float* cos, const float* sin, float* y) {
  for (std::int64_t i = 0; i < half; ++i) {
    const float x1 = y[i], x2 = y[half + i];
    y[i] = num::fma(x1, cos[i], -(x2 * sin[i]));
    y[half + i] = num::fma(x2, cos[i], x1 * sin[i]);
  }
}

void attend_head(const PageShape& shape, std::span<void* const> pages, std::int64_t head, std::int64_t count,
                 float scale, const float* q, float* o) {
  Block all = attend_block(shape, pages, head, 0, std::min(count, kAttentionBlock), scale, q);
  for (std::int64_t begin = kAttentionBlock; begin < count; begin += kAttentionBlock) {
    join(all, attend_block(shape, pages, head, begin, std::min(count, begin + kAttentionBlock), scale, q));
  }
  for (std::int64_t d = 0; d < shape.head_dim; ++d) o[d] = all.values[static_cast<std::size_t>(d)] / all.sum;
}

}  // namespace tandem::cpu
