#pragma once

#include "backends/cpu/kernels/q4_simd.hpp"

/// num::dot_q4: activations as they are. The chain of a block's sum runs over its elements, so vectors go
/// across blocks: element i of a group's blocks side by side, one fma each.
namespace tandem::cpu::TANDEM_ISA::q4 {

/// Half byte k of each word, 0..7 from the lowest, as the level.
TANDEM_FN Vec level(IntVec word, int k) {
#if defined(__AVX512F__)
  // Takes its indices mod 16. Without a mask, gcc 12's header warns of its own uninitialised variable.
  const Vec levels = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  return _mm512_maskz_permutexvar_ps(0xffff, (__m512i)((UintVec)word >> (4 * k)), levels);
#else
  // Bits from 4k on of a float whose last place is worth 2^-4k: no shift for the first five.
  constexpr int kUnshifted = 5;
  const UintVec bits = k < kUnshifted ? (UintVec)word : (UintVec)word >> (4 * kUnshifted);
  const int at = k < kUnshifted ? 4 * k : 4 * (k - kUnshifted);
  const float base = num::power_of_two(23 - at);
  return (Vec)((bits & (15u << at)) | num::bits_of(base)) - (base + 8.0f);
#endif
}

struct Real {
  /// Floats that lay_out writes for n elements.
  TANDEM_FN std::int64_t laid_out(std::int64_t n) { return groups_of(n) * kWidth * kBlock; }

  /// Element i of all blocks of a group, then the next, in the order of transpose(). Elements beyond the
  /// row's end are 0.
  TANDEM_FN void lay_out(const float* x, std::int64_t n, float* out) {
    const std::int64_t blocks = n / kBlock;
    for (std::int64_t g = 0; g < groups_of(n); ++g, out += kWidth * kBlock) {
      for (int p = 0; p < kWidth; ++p) {
        const std::int64_t block = g * kWidth + p % 4 * kQuads + p / 4;
        for (int i = 0; i < kBlock; ++i) out[i * kWidth + p] = block < blocks ? x[block * kBlock + i] : 0.0f;
      }
    }
  }

  /// Adds a group of `rows` rows to the lanes of every row and token.
  template <int rows, int tokens>
  TANDEM_FN void add_group(const std::uint8_t* const* levels, const f16* const* group_scales, const float* x,
                           std::int64_t x_stride, Vec (*lanes)[tokens]) {
    IntVec words[rows][4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      IntVec v[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) v[i] = (IntVec)load_bytes(levels[r] + i * kVectorBytes);
      transpose(v, words[r]);
    }
    Vec sums[rows][tokens] = {};
#pragma GCC unroll 32
    for (int i = 0; i < kBlock; ++i) {
      const int word = i % 16 / 4, half = i % 4 * 2 + i / 16;
      Vec xs[tokens];
#pragma GCC unroll 4
      for (int t = 0; t < tokens; ++t) xs[t] = simd::load(x + t * x_stride + i * kWidth);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const Vec q = level(words[r][word], half);
#pragma GCC unroll 4
        for (int t = 0; t < tokens; ++t) sums[r][t] = simd::fma(q, xs[t], sums[r][t]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const Vec d = scales(group_scales[r]);
#pragma GCC unroll 4
      for (int t = 0; t < tokens; ++t) lanes[r][t] = simd::fma(d, in_order(sums[r][t]), lanes[r][t]);
    }
  }

  /// Weight rows that share x of one token, or of several: as many chains as the registers hold.
  static constexpr int kRowsOfOne = 2, kRowsOfSeveral = kWidth == 16 ? 2 : 1;
  static constexpr int kGroupFloats = kWidth * kBlock;
};

}  // namespace tandem::cpu::TANDEM_ISA::q4
