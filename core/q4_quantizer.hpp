#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace tandem {

/// How much a matrix lost when it was quantised: sums over its elements.
struct Q4Error {
  double squared_error = 0;
  double squared_values = 0;

  Q4Error& operator+=(const Q4Error& other) {
    squared_error += other.squared_error;
    squared_values += other.squared_values;
    return *this;
  }
};

/// Writes rows [begin, end) of a matrix as raw-q4 into `to`, the memory of the whole q4 tensor
/// (storage_bytes(DType::q4, ...)), so that threads can share a matrix. `matrix` is contiguous f32, bf16 or
/// f16 in host memory.
///
/// The rule, for each block of 32: m is its element of the largest magnitude (the first among equals). The
/// candidates for the scale are m / s, rounded to f16, for whole s = -8 .. -1 and 1 .. 7, which include the
/// scale of a block that lies on a grid already, and for quarters, s = -8.75 .. -6.25 and 6.25 .. 7.75. Each
/// gives levels by rounding x / scale to nearest (ties to even) within -8 .. 7, and these levels a further
/// candidate, the least-squares scale sum(x q) / sum(q q). The smallest sum of squared errors wins, computed
/// in f32 (eight partial sums); the first among equals. A block of zeros, or of values too small for an f16
/// scale, becomes zeros.
///
/// Throws Error(invalid_argument) naming row and column for a value that is not finite or too large for an
/// f16 scale (|x| > 8 * 65504), before anything of its block is written.
Q4Error quantize_q4_rows(const ConstTensor& matrix, std::int64_t begin, std::int64_t end, void* to);

/// Throws Error(mismatch) when a matrix cannot be raw-q4: it is no matrix, or its columns are no multiple
/// of 32. `what` names it.
void require_q4_shape(const Shape& shape, const char* what);

/// The whole matrix, on one thread. Throws as both.
HostTensor quantize_q4(const ConstTensor& matrix);

/// Row `row` of a q4 matrix as f32: d * q, exact.
void dequantize_q4_row(const ConstTensor& matrix, std::int64_t row, float* to);

}  // namespace tandem
