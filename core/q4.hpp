#pragma once

#include <cstdint>

#include "core/reduce.hpp"
#include "core/tensor.hpp"

/// raw-q4: a matrix in 4 bits. Blocks of 32 neighbouring columns have one scale d (f16) and 32 levels q,
/// whole numbers of -8 to 7; an element is d * q. In memory the levels of all rows come first, row by row and
/// block by block, then the scales of all rows: rows * columns * 4.5 / 8 bytes without padding. Columns are a
/// multiple of 32, so that a block's levels are 16 aligned bytes: byte i holds level i in its low half and
/// level i + 16 in its high half, each as q + 8. (The same halves as in GGML's Q4_0, which becomes raw-q4 by
/// moving its scales.)
///
/// The dot products are written here as plain loops; every kernel gives their bits.
namespace tandem {

/// A q4 tensor by its parts. Points into the memory of the tensor.
struct Q4Matrix {
  const std::uint8_t* levels;
  const f16* scales;
  std::int64_t row_blocks;

  [[gnu::always_inline]] const std::uint8_t* row_levels(std::int64_t row) const {
    return levels + row * row_blocks * (kQ4Block / 2);
  }
  [[gnu::always_inline]] const f16* row_scales(std::int64_t row) const { return scales + row * row_blocks; }
};

/// REQUIRES: a q4 matrix.
[[gnu::always_inline]] static inline Q4Matrix q4_matrix(const ConstTensor& tensor) {
  const auto* levels = static_cast<const std::uint8_t*>(tensor.data);
  const std::int64_t level_bytes = tensor.shape.elements() / 2;
  return {levels, reinterpret_cast<const f16*>(levels + level_bytes), tensor.shape[1] / kQ4Block};
}

namespace num {

/// Level i of a block.
TANDEM_FN std::int32_t q4_level(const std::uint8_t* block, int i) {
  const int half = static_cast<int>(kQ4Block) / 2;
  const std::int32_t byte = block[i % half];
  return (i < half ? byte & 15 : byte >> 4) - 8;
}

/// sum of w[i] * x[i] with w a row of raw-q4. Block b belongs to lane b mod 32; a lane takes its blocks in
/// increasing b. In a block t = fma(q, x, t) over its 32 elements in order, from +0; then
/// lane = fma(d, t, lane). The lanes join as those of any dot product.
TANDEM_FN float dot_q4(const std::uint8_t* levels, const f16* scales, const float* x, std::int64_t n) {
  float lanes[kLanes] = {};
  for (std::int64_t b = 0; b < n / kQ4Block; ++b) {
    float t = 0;
    for (int i = 0; i < kQ4Block; ++i) {
      t = fma(static_cast<float>(q4_level(levels + b * (kQ4Block / 2), i)), x[b * kQ4Block + i], t);
    }
    float& lane = lanes[b % kLanes];
    lane = fma(widen(scales[b]), t, lane);
  }
  return join_lanes(lanes);
}

/// The nearest whole number, ties to even, of |x| < 2^22.
TANDEM_FN float nearest(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

/// Scale of a block of activations: the largest |x| / 127. A NaN counts as larger than everything, so that it
/// is found.
TANDEM_FN float q8_scale(const float* x) {
  std::uint32_t largest = 0;
  for (int i = 0; i < kQ4Block; ++i) {
    const std::uint32_t bits = bits_of(x[i]) & 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  return float_of(largest) / 127.0f;
}

/// Whether levels can be taken from a scale: otherwise (0, infinite, NaN) they are all 0, and an infinite or
/// NaN scale makes a NaN of every sum that it comes into.
TANDEM_FN bool q8_scale_usable(float scale) { return scale > 0.0f && bits_of(scale) < 0x7f800000u; }

/// x / scale to the nearest whole number, ties to even, within +-127 (a subnormal scale is so coarse that
/// more could come out). REQUIRES: a usable scale.
TANDEM_FN std::int8_t q8_level(float x, float scale) {
  float level = x / scale;
  level = level > 127.0f ? 127.0f : level;
  level = level < -127.0f ? -127.0f : level;
  return static_cast<std::int8_t>(nearest(level));
}

/// A block of activations in 8 bits; returns its scale.
TANDEM_FN float quantize_q8(const float* x, std::int8_t* levels) {
  const float scale = q8_scale(x);
  const bool usable = q8_scale_usable(scale);
  for (int i = 0; i < kQ4Block; ++i) levels[i] = usable ? q8_level(x[i], scale) : std::int8_t{0};
  return scale;
}

/// The same sum with x in 8 bits: t is the exact whole-number sum of a block, lane = fma(t, d * x_scale,
/// lane).
TANDEM_FN float dot_q4q8(const std::uint8_t* levels, const f16* scales, const std::int8_t* x,
                         const float* x_scales, std::int64_t n) {
  float lanes[kLanes] = {};
  for (std::int64_t b = 0; b < n / kQ4Block; ++b) {
    std::int32_t t = 0;
    for (int i = 0; i < kQ4Block; ++i) {
      t += q4_level(levels + b * (kQ4Block / 2), i) * x[b * kQ4Block + i];
    }
    float& lane = lanes[b % kLanes];
    lane = fma(static_cast<float>(t), widen(scales[b]) * x_scales[b], lane);
  }
  return join_lanes(lanes);
}

}  // namespace num
}  // namespace tandem
