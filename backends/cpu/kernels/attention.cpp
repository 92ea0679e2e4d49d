#include "backends/cpu/kernels/norm.hpp"
#include "backends/cpu/kernels/set.hpp"
#include "backends/cpu/pages.hpp"

namespace tandem::cpu::TANDEM_ISA {
namespace {

constexpr std::int64_t kBlock = 128;

/// The highest of a whole block. Which of two equal zeros wins cannot be seen in exp(s - maximum), and a NaN
/// makes the result NaN wherever it stands, so the order is free.
TANDEM_FN float highest(const float* scores) {
  Vec best = simd::load(scores);
  for (int i = kWidth; i < kBlock; i += kWidth) {
    const Vec v = simd::load(scores + i);
    best = v > best ? v : best;
  }
  float maximum = best[0];
  for (int l = 1; l < kWidth; ++l) maximum = best[l] > maximum ? best[l] : maximum;
  return maximum;
}

/// scores[j] = exp(s - maximum) of the block, +0 past its end; returns the maximum. A head size that is known
/// when this is compiled (0: it is not) unrolls the dot product, which is most of the work.
template <int fixed_dim>
float score_block(const PageShape& shape, std::span<void* const> pages, std::int64_t head, std::int64_t begin,
                  std::int64_t count, float scale, const float* q, float* scores) {
  const std::int64_t dim = fixed_dim > 0 ? fixed_dim : shape.head_dim;
  for (std::int64_t j = 0; j < count; ++j) {
    scores[j] = dot(key_row(shape, pages, head, begin + j), q, dim) * scale;
  }
  for (std::int64_t j = count; j < kBlock; ++j) scores[j] = scores[0];
  const float maximum = highest(scores);
  for (std::int64_t j = 0; j < count; ++j) scores[j] = num::exp(scores[j] - maximum);
  for (std::int64_t j = count; j < kBlock; ++j) scores[j] = 0.0f;
  return maximum;
}

using ScoreBlock = float (*)(const PageShape&, std::span<void* const>, std::int64_t, std::int64_t,
                             std::int64_t, float, const float*, float*);

ScoreBlock score_block_for(std::int64_t head_dim) {
  if (head_dim == 64) return score_block<64>;
  if (head_dim == 128) return score_block<128>;
  if (head_dim == 256) return score_block<256>;
  return score_block<0>;
}

/// values[d] = sum of scores[j] * v[j][d] in order of position, `width` elements at a time in registers.
template <int width>
TANDEM_FN void sum_values(const PageShape& shape, std::span<void* const> pages, std::int64_t head,
                          std::int64_t begin, std::int64_t count, const float* scores, std::int64_t at,
                          float* values) {
  float sum[width] = {};
  for (std::int64_t j = 0; j < count; ++j) {
    const float* v = value_row(shape, pages, head, begin + j) + at;
    for (int d = 0; d < width; ++d) sum[d] = num::fma(scores[j], v[d], sum[d]);
  }
  for (int d = 0; d < width; ++d) values[at + d] = sum[d];
}

void attend(const PageShape& shape, std::span<void* const> pages, std::int64_t head, std::int64_t count,
            float scale, const float* q, float* o) {
  const std::int64_t dim = shape.head_dim;
  float* all = thread_scratch(2 * dim);
  float* block = all + dim;
  const ScoreBlock score = score_block_for(dim);
  float maximum = 0.0f, sum = 0.0f;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t size = count - begin < kBlock ? count - begin : kBlock;
    float scores[kBlock];
    const float block_maximum = score(shape, pages, head, begin, size, scale, q, scores);
    float* values = begin == 0 ? all : block;
    std::int64_t d = 0;
    for (; d + 64 <= dim; d += 64) sum_values<64>(shape, pages, head, begin, size, scores, d, values);
    for (; d + 16 <= dim; d += 16) sum_values<16>(shape, pages, head, begin, size, scores, d, values);
    for (; d < dim; ++d) sum_values<1>(shape, pages, head, begin, size, scores, d, values);
    Vec chains[kVectors];
    for (int i = 0; i < kVectors; ++i) chains[i] = simd::load(scores + i * kWidth);
    const float block_sum = join_128(chains);
    if (begin == 0) {
      maximum = block_maximum, sum = block_sum;
      continue;
    }
    const float joined = block_maximum > maximum ? block_maximum : maximum;
    const float old_scale = num::exp(maximum - joined), new_scale = num::exp(block_maximum - joined);
    sum = num::fma(block_sum, new_scale, sum * old_scale);
    for (std::int64_t i = 0; i < dim; ++i) all[i] = num::fma(block[i], new_scale, all[i] * old_scale);
    maximum = joined;
  }
  for (std::int64_t i = 0; i < dim; ++i) o[i] = all[i] / sum;
}

}  // namespace

void head_norm_rope(const HeadNormRope& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t heads = op.y.shape[1], n = op.y.shape[2], half = op.cos.row_elements();
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t position = op.positions.row<std::int32_t>(0)[t];
    const float* cos = op.cos.row<float>(position);
    const float* sin = op.sin.row<float>(position);
    for (std::int64_t h = 0; h < heads; ++h) {
      float* y = op.y.row<float>(t) + h * n;
      rms_norm_row(n, op.x.row<float>(t) + h * op.head_stride, op.weight.row<float>(0),
                   static_cast<float>(op.eps), y);
      for (std::int64_t i = 0; i < half; ++i) {
        const float x1 = y[i], x2 = y[half + i];
        y[i] = num::fma(x1, cos[i], -(x2 * sin[i]));
        y[half + i] = num::fma(x2, cos[i], x1 * sin[i]);
      }
    }
  }
}

void kv_append(const KvAppend& op, std::int64_t begin, std::int64_t end) {
  const PageShape shape{op.k.shape[1], op.page_tokens, op.k.shape[2]};
  const auto bytes = static_cast<std::size_t>(shape.head_dim) * sizeof(float);
  for (std::int64_t t = begin; t < end; ++t) {
    const KvSegment& s = segment_of(op.segments, t);
    const std::int64_t position = s.position + t - s.range.first_row;
    for (std::int64_t h = 0; h < shape.kv_heads; ++h) {
      std::memcpy(key_row(shape, s.pages, h, position), op.k.row<float>(t) + h * shape.head_dim, bytes);
      std::memcpy(value_row(shape, s.pages, h, position), op.v.row<float>(t) + h * shape.head_dim, bytes);
    }
  }
}

void attention(const Attention& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t heads = op.q.shape[1];
  const PageShape shape{op.kv_heads, op.page_tokens, op.q.shape[2]};
  for (std::int64_t u = begin; u < end; ++u) {
    const std::int64_t t = u / heads, h = u % heads, at = h * shape.head_dim;
    const KvSegment& s = segment_of(op.segments, t);
    attend(shape, s.pages, h / (heads / op.kv_heads), s.position + t - s.range.first_row + 1,
           static_cast<float>(op.scale), op.q.row<float>(t) + at, op.o.row<float>(t) + at);
  }
}

}  // namespace tandem::cpu::TANDEM_ISA
