#include "graph/session/sampler_kernels.hpp"

#include <algorithm>
#include <limits>

#include "core/numerics.hpp"

namespace tandem {
namespace {

/// Whole numbers in the order of the floats, -0 below 0. NaNs come out above infinity, or below -infinity.
TANDEM_FN std::int32_t ordered(std::uint32_t bits) {
  const auto value = static_cast<std::int32_t>(bits);
  return value ^ ((value >> 31) & 0x7fffffff);
}

TANDEM_FN float highest_body(const float* x, std::size_t size) {
  std::int32_t highest = std::numeric_limits<std::int32_t>::min();
  std::int32_t magnitude = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint32_t bits = num::bits_of(x[i]);
    highest = std::max(highest, ordered(bits));
    magnitude = std::max(magnitude, static_cast<std::int32_t>(bits & 0x7fffffffu));
  }
  if (magnitude > 0x7f800000) return std::numeric_limits<float>::quiet_NaN();
  return num::float_of(static_cast<std::uint32_t>(highest ^ ((highest >> 31) & 0x7fffffff)));
}

TANDEM_FN void distances_body(const float* x, std::size_t size, float top, float temperature, float* d,
                              float* nearest) {
  for (std::size_t begin = 0; begin < size; begin += kSamplerBlock) {
    const std::size_t end = std::min(begin + kSamplerBlock, size);
    // Distances are at least +0, whose order is that of their bits.
    std::int32_t smallest = std::numeric_limits<std::int32_t>::max();
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t below = 0u - static_cast<std::uint32_t>(x[i] < top);
      const std::uint32_t bits = num::bits_of((top - x[i]) / temperature) & below;
      d[i] = num::float_of(bits);
      smallest = std::min(smallest, static_cast<std::int32_t>(bits));
    }
    nearest[begin / kSamplerBlock] = num::float_of(static_cast<std::uint32_t>(smallest));
  }
}

TANDEM_FN void weigh_body(const float* d, std::size_t size, float* weights, std::uint64_t* sums) {
  for (std::size_t begin = 0; begin < size; begin += kSamplerBlock) {
    const std::size_t end = std::min(begin + kSamplerBlock, size);
    for (std::size_t i = begin; i < end; ++i) weights[i] = num::exp(-d[i]);
    std::uint64_t sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += whole_weight(weights[i]);
    sums[begin / kSamplerBlock] = sum;
  }
}

float highest_plain(const float* x, std::size_t size) { return highest_body(x, size); }
void distances_plain(const float* x, std::size_t size, float top, float temperature, float* d,
                     float* nearest) {
  distances_body(x, size, top, temperature, d, nearest);
}
void weigh_plain(const float* d, std::size_t size, float* weights, std::uint64_t* sums) {
  weigh_body(d, size, weights, sums);
}

constexpr SamplerKernels kPlain{"plain", highest_plain, distances_plain, weigh_plain};

#if defined(__x86_64__)
// Without these instructions every fused multiply-add is a call of the C library.
[[gnu::target("avx2,fma")]] float highest_avx2(const float* x, std::size_t size) {
  return highest_body(x, size);
}
[[gnu::target("avx2,fma")]] void distances_avx2(const float* x, std::size_t size, float top,
                                                float temperature, float* d, float* nearest) {
  distances_body(x, size, top, temperature, d, nearest);
}
[[gnu::target("avx2,fma")]] void weigh_avx2(const float* d, std::size_t size, float* weights,
                                            std::uint64_t* sums) {
  weigh_body(d, size, weights, sums);
}

constexpr SamplerKernels kSets[] = {{"avx2", highest_avx2, distances_avx2, weigh_avx2}, kPlain};
#else
constexpr SamplerKernels kSets[] = {kPlain};
#endif

}  // namespace

std::span<const SamplerKernels> usable_sampler_kernels() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return std::span(kSets).subspan(1);
#endif
  return kSets;
}

}  // namespace tandem
