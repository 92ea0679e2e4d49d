#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tandem {

/// The passes over the whole vocabulary that a choice takes (sampler.hpp has their definition), written for
/// the compiler's vectoriser. Plain functions without state. All sets give the same bits.

/// Tokens of which sums and nearest distances are kept, so that later passes can skip what they need not see.
inline constexpr std::size_t kSamplerBlock = 64;
constexpr std::size_t sampler_blocks(std::size_t size) { return (size + kSamplerBlock - 1) / kSamplerBlock; }

/// A weight as a whole number: e^-d times 2^40, rounded to nearest, ties to even. Adding 2^52 rounds a double
/// of [0, 2^40] to a whole number, which then is the low part of its bits.
[[gnu::always_inline]] inline std::uint64_t whole_weight(float weight) {
  const double shifted = static_cast<double>(weight) * 0x1p40 + 0x1p52;
  return __builtin_bit_cast(std::uint64_t, shifted) - __builtin_bit_cast(std::uint64_t, 0x1p52);
}

struct SamplerKernels {
  std::string_view name;
  /// The highest of x, which has at least one; NaN if one is NaN.
  float (*highest)(const float* x, std::size_t size);
  /// d = (top - x) / temperature, 0 where x equals top; the smallest of each block.
  void (*distances)(const float* x, std::size_t size, float top, float temperature, float* d, float* nearest);
  /// weights = e^-d, and the sum of each block's whole weights.
  void (*weigh)(const float* d, std::size_t size, float* weights, std::uint64_t* sums);
};

/// Those that this machine has, best first. Never empty.
std::span<const SamplerKernels> usable_sampler_kernels();

}  // namespace tandem
