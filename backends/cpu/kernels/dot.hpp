#pragma once

#include <cstring>

#include "backends/cpu/kernels/simd.hpp"

/// Dot products in the order of core/reduce.hpp. The chains of one lane are neighbours, so 128 chains of f32
/// weights are 128 / kWidth vectors side by side and a step of the row is one fma for each. For bf16 there
/// are 256: a 32-bit word of the row holds two weights that belong to neighbouring chains, and they are kept
/// apart as an even and an odd vector, which makes widening a shift and a mask and the first level of the
/// tree a plain addition. x is laid out to match, once per operator.
namespace tandem::cpu::TANDEM_ISA {

using simd::kWidth;
using simd::Vec;

inline constexpr int kVectors = 128 / kWidth;  ///< vectors that hold 128 chains

/// 128 values in order, four to a lane: two levels of neighbours, then the lanes.
TANDEM_FN float join_128(Vec* v) {
#pragma GCC unroll 16
  for (int i = 0; i < kVectors / 2; ++i) v[i] = simd::add_neighbours(v[2 * i], v[2 * i + 1]);
#pragma GCC unroll 16
  for (int i = 0; i < kVectors / 4; ++i) v[i] = simd::add_neighbours(v[2 * i], v[2 * i + 1]);
  return simd::join_lanes(v);
}

/// Weights are asked for this far ahead: the processor's own prefetching stops at a page's end, and a row is
/// a few pages. Measured in ../README.md.
inline constexpr std::uintptr_t kPrefetchBytes = 4096;

TANDEM_FN void prefetch(const void* weights) { simd::prefetch(weights, kPrefetchBytes); }

/// How one vector step reads weights and x. A step is kStep elements; `partial` reads fewer and fills up so
/// that the missing fma's are 0 * -1 + chain: that is the chain itself, also when it is -0.
template <class W>
struct Step;

template <>
struct Step<float> {
  static constexpr int kStep = kWidth;
  static constexpr int kParts = 1;  ///< vectors of a step

  TANDEM_FN void weights(const float* w, Vec* out) {
    prefetch(w);
    out[0] = simd::load(w);
  }
  TANDEM_FN void partial_weights(const float* w, std::int64_t count, Vec* out) {
    float filled[kStep] = {};
    std::memcpy(filled, w, static_cast<std::size_t>(count) * sizeof(float));
    out[0] = simd::load(filled);
  }
  TANDEM_FN Vec x(const float* x, int) { return simd::load(x); }
  TANDEM_FN Vec partial_x(const float* x, std::int64_t count, int) {
    float filled[kStep];
    for (float& f : filled) f = -1.0f;
    std::memcpy(filled, x, static_cast<std::size_t>(count) * sizeof(float));
    return simd::load(filled);
  }
};

template <>
struct Step<bf16> {
  static constexpr int kStep = 2 * kWidth;
  static constexpr int kParts = 2;

  TANDEM_FN void split(simd::UintVec pairs, Vec* out) {
    out[0] = simd::even_bf16(pairs);
    out[1] = simd::odd_bf16(pairs);
  }
  TANDEM_FN void weights(const bf16* w, Vec* out) {
    prefetch(w);
    split(*reinterpret_cast<const simd::UnalignedUintVec*>(w), out);
  }
  TANDEM_FN void partial_weights(const bf16* w, std::int64_t count, Vec* out) {
    bf16 filled[kStep] = {};
    std::memcpy(filled, w, static_cast<std::size_t>(count) * sizeof(bf16));
    weights(filled, out);
  }
  // x comes from pair_up(), which has filled up the last step.
  TANDEM_FN Vec x(const float* x, int part) { return simd::load(x + part * kWidth); }
  TANDEM_FN Vec partial_x(const float* x, std::int64_t, int part) { return simd::load(x + part * kWidth); }
};

/// Floats that pair_up writes for n elements.
TANDEM_FN std::int64_t paired_size(std::int64_t n) {
  return (n + 2 * kWidth - 1) / (2 * kWidth) * (2 * kWidth);
}

/// Lays x out for bf16 weights: of every 2 * kWidth elements first the even, then the odd ones.
TANDEM_FN void pair_up(const float* x, std::int64_t n, float* out) {
  std::int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    const Vec a = simd::load(x + i), b = simd::load(x + i + kWidth);
    simd::store(out + i, simd::evens(a, b));
    simd::store(out + i + kWidth, simd::odds(a, b));
  }
  for (std::int64_t at = i; i < paired_size(n); ++i) {
    out[at + (i - at) / 2 + ((i - at) % 2) * kWidth] = i < n ? x[i] : -1.0f;
  }
}

/// Adds step `at` of the row to the chains of every token.
template <class W, int tokens, bool whole>
TANDEM_FN void add_step(const W* w, const float* x, std::int64_t x_stride, std::int64_t at, std::int64_t left,
                        Vec (*chains)[Step<W>::kParts], int chain_stride) {
  using S = Step<W>;
  Vec weights[S::kParts];
  if constexpr (whole) {
    S::weights(w + at, weights);
  } else {
    S::partial_weights(w + at, left, weights);
  }
#pragma GCC unroll 4
  for (int t = 0; t < tokens; ++t) {
    const float* row = x + t * x_stride + at;
#pragma GCC unroll 2
    for (int p = 0; p < S::kParts; ++p) {
      const Vec v = whole ? S::x(row, p) : S::partial_x(row, left, p);
      Vec& chain = chains[t * chain_stride][p];
      chain = simd::fma(weights[p], v, chain);
    }
  }
}

/// Dot products of one weight row with `tokens` rows of x. `group` steps' chains are kept in registers at a
/// time; the row, in the nearest cache by then, is walked once for each group. Loops over chains are
/// unrolled, or gcc would keep them in memory.
template <class W, int tokens, int group>
TANDEM_FN void dot_tokens(const W* w, const float* x, std::int64_t x_stride, std::int64_t n, float* out) {
  using S = Step<W>;
  constexpr std::int64_t kAll = num::kChains<W>;
  Vec sums[tokens][kVectors];
#pragma GCC unroll 1
  for (int first = 0; first < kVectors; first += group) {
    Vec chains[tokens][group][S::kParts] = {};
    std::int64_t i = first * S::kStep;
#pragma GCC unroll 1
    for (; i + group * S::kStep <= n; i += kAll) {
#pragma GCC unroll 16
      for (int g = 0; g < group; ++g) {
        add_step<W, tokens, true>(w, x, x_stride, i + g * S::kStep, 0, &chains[0][g], group);
      }
    }
#pragma GCC unroll 16
    for (int g = 0; g < group; ++g) {
      const std::int64_t at = i + g * S::kStep, left = n - at;
      if (left >= S::kStep) {
        add_step<W, tokens, true>(w, x, x_stride, at, 0, &chains[0][g], group);
      } else if (left > 0) {
        add_step<W, tokens, false>(w, x, x_stride, at, left, &chains[0][g], group);
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 16
      for (int g = 0; g < group; ++g) {
        if constexpr (S::kParts == 2) {
          sums[t][first + g] = chains[t][g][0] + chains[t][g][1];
        } else {
          sums[t][first + g] = chains[t][g][0];
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int t = 0; t < tokens; ++t) out[t] = join_128(sums[t]);
}

/// One dot product of f32 rows.
TANDEM_FN float dot(const float* w, const float* x, std::int64_t n) {
  float out;
  dot_tokens<float, 1, kVectors>(w, x, 0, n, &out);
  return out;
}

}  // namespace tandem::cpu::TANDEM_ISA
