#pragma once

#include <cstdint>

#include "core/dtype.hpp"

/// The scalar functions of every kernel, on every backend, compiled by the host's compiler and by nvcc:
/// sequences of IEEE-754 binary32 operations and integer operations in a written order, so that both give the
/// same bits (core/README.md, "One arithmetic"). Build with -ffp-contract=off and --fmad=false. No library
/// transcendental is used: those differ between libraries.
///
/// Everything has internal linkage and is always inlined: kernels are compiled once per instruction set, and
/// a shared inline symbol would let the linker pick the copy that the machine cannot run.
#if defined(__CUDACC__)
#define TANDEM_FN static __host__ __device__ __forceinline__
#else
#define TANDEM_FN [[gnu::always_inline]] static inline
#endif

namespace tandem::num {

TANDEM_FN std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
TANDEM_FN float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

/// a * b + c, rounded once.
TANDEM_FN float fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

/// Correctly rounded.
TANDEM_FN float sqrt(float x) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}

/// 1 / sqrt(x) by two correctly rounded operations, never by an approximation.
TANDEM_FN float inverse_sqrt(float x) { return 1.0f / sqrt(x); }

TANDEM_FN float absolute(float x) { return float_of(bits_of(x) & 0x7fffffffu); }

/// Exact.
TANDEM_FN float widen(float x) { return x; }
TANDEM_FN float widen(bf16 x) { return float_of(static_cast<std::uint32_t>(x.bits) << 16); }

/// binary16, subnormals kept: the exponent is moved by scaling with 2^112, which is exact for every finite
/// value.
TANDEM_FN float widen(f16 x) {
  const std::uint32_t sign = (x.bits & 0x8000u) << 16, magnitude = x.bits & 0x7fffu;
  const float scaled = float_of(magnitude << 13) * 0x1p112f;
  const std::uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u | (magnitude << 13) : bits_of(scaled);
  return float_of(sign | special);
}

/// The nearest binary16, ties to even; too large becomes infinite, NaN stays NaN. A subnormal result is
/// rounded by adding 1/2, whose last place is 2^-24, binary16's smallest step.
TANDEM_FN f16 round_to_f16(float x) {
  const std::uint32_t sign = (bits_of(x) >> 16) & 0x8000u, magnitude = bits_of(x) & 0x7fffffffu;
  const std::uint32_t even = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  const std::uint32_t normal = (even - 0x38000000u) >> 13;
  const std::uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
  std::uint32_t result = magnitude < 0x38800000u ? subnormal : normal > 0x7c00u ? 0x7c00u : normal;
  if (magnitude > 0x7f800000u) result = 0x7e00u;
  return f16{static_cast<std::uint16_t>(sign | result)};
}

/// 2^k for k in [-126, 127].
TANDEM_FN float power_of_two(std::int32_t k) { return float_of(static_cast<std::uint32_t>(k + 127) << 23); }

/// `on_true` where x > limit, else `on_false`, chosen by bits: a ternary here becomes a branch and stops
/// gcc's vectoriser.
TANDEM_FN float select_above(float x, float limit, float on_true, float on_false) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(x > limit);
  return float_of((bits_of(on_true) & mask) | (bits_of(on_false) & ~mask));
}

/// e^x. At most 0.93 ULP over all floats (subnormal results too). NaN stays NaN; overflows to inf
/// from 88.72284 on; 0 below -103.9721. Cody-Waite reduction by n = round(x / ln 2) in two steps, a degree-6
/// minimax polynomial on [-ln2/2, ln2/2], and scaling in two factors so that subnormal results round once.
TANDEM_FN float exp(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = fma(x, 0x1.715476p+0f, 0x1.8p23f);
  const std::int32_t n = static_cast<std::int32_t>(bits_of(shifted)) - 0x4b400000;
  const float nf = shifted - 0x1.8p23f;
  float r = fma(nf, -0x1.62e4p-1f, x);
  r = fma(nf, -0x1.7f7d1cp-20f, r);
  float p = 0x1.6d4352p-10f;
  p = fma(p, r, 0x1.123dcp-7f);
  p = fma(p, r, 0x1.5554f4p-5f);
  p = fma(p, r, 0x1.555494p-3f);
  p = fma(p, r, 0.5f);
  p = fma(p, r, 1.0f);
  p = fma(p, r, 1.0f);
  const std::int32_t half = n >> 1;
  return (p * power_of_two(half)) * power_of_two(n - half);
}

/// 1 / (1 + e^-x), as e^x / (1 + e^x) for negative x, so that nothing overflows. At most 2.5 ULP over all
/// floats.
TANDEM_FN float sigmoid(float x) {
  const float e = exp(-absolute(x));
  return select_above(x, -0.0f, 1.0f, e) / (1.0f + e);
}

/// x * sigmoid(x). At most 3.4 ULP for every x >= -87; below, where results are under 1.5e-36, up to 52.
TANDEM_FN float silu(float x) {
  const float e = exp(-absolute(x));
  return (x * select_above(x, -0.0f, 1.0f, e)) / (1.0f + e);
}

/// log(1 + e) for e >= 0, for softplus. With u = 1 + e rounded and c the rounding error, log(1 + e) = log(u)
/// + c / u; u = 2^k m with m in [sqrt(1/2), sqrt(2)), f = m - 1, log(m) = f - f^2/2 + f^3 P(f) with a
/// degree-7 minimax P.
TANDEM_FN float log1p_nonnegative(float e) {
  const float u = 1.0f + e;
  const float b = u - 1.0f;
  const float c = (1.0f - (u - b)) + (e - b);  // TwoSum: exact whichever of the two is larger
  const std::int32_t k = static_cast<std::int32_t>(bits_of(u) - 0x3f3504f3u) >> 23;
  const float m = float_of(bits_of(u) - (static_cast<std::uint32_t>(k) << 23));
  const float f = m - 1.0f;
  const float kf = static_cast<float>(k);
  float p = -0x1.38b588p-4f;
  p = fma(p, f, 0x1.055b72p-3f);
  p = fma(p, f, -0x1.0d8544p-3f);
  p = fma(p, f, 0x1.22da1cp-3f);
  p = fma(p, f, -0x1.547244p-3f);
  p = fma(p, f, 0x1.99a008p-3f);
  p = fma(p, f, -0x1.000226p-2f);
  p = fma(p, f, 0x1.555554p-2f);
  const float f2 = f * f;
  float low = fma(kf, 0x1.7f7d1cp-20f, c / u);
  low = fma(f2 * f, p, low);
  low = fma(f2, -0.5f, low);
  return fma(kf, 0x1.62e4p-1f, f + low);
}

/// log(1 + e^x), and x itself for x > 20 (as the model was trained). At most 1.7 ULP over all floats.
TANDEM_FN float softplus(float x) { return select_above(x, 20.0f, x, log1p_nonnegative(exp(x))); }

}  // namespace tandem::num
