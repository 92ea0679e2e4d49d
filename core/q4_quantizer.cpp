#include "core/q4_quantizer.hpp"

#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "core/error.hpp"
#include "core/q4.hpp"

namespace tandem {
namespace {

constexpr int kBlock = static_cast<int>(kQ4Block);
constexpr float kLargestScale = 65504.0f;

using Values = std::array<float, kQ4Block>;
using Levels = std::array<float, kQ4Block>;  ///< whole numbers

struct Candidate {
  f16 scale{0};
  float error = INFINITY;
  Levels levels{};
};

/// Divisors of the largest element. What lies between whole numbers is for both ends of the range, as
/// rounding the largest element down to it may serve the others.
constexpr float kDivisors[] = {-8,     -7,     -6,    -5,     -4,    -3,     -2,    -1,     1,      2,
                               3,      4,      5,     6,      7,     -8.75f, -8.5f, -8.25f, -7.75f, -7.5f,
                               -7.25f, -6.75f, -6.5f, -6.25f, 6.25f, 6.5f,   6.75f, 7.25f,  7.5f,   7.75f};

/// Sum of term(i) over a block in eight partial sums, which compilers turn into vectors.
template <class Term>
float sum_of(const Term& term) {
  constexpr std::size_t kSums = 8;
  std::array<float, kSums> sums{};
  for (std::size_t i = 0; i < kQ4Block; i += kSums) {
    for (std::size_t s = 0; s < kSums; ++s) sums[s] += term(i + s);
  }
  return num::join_neighbours(sums.data(), kSums);
}

float squared_error(const Values& x, float scale, const Levels& levels) {
  return sum_of([&](std::size_t i) {
    const float difference = x[i] - scale * levels[i];
    return difference * difference;
  });
}

void keep_better(const Values& x, f16 scale, const Levels& levels, Candidate& best) {
  const float error = squared_error(x, num::widen(scale), levels);
  if (error < best.error) best = {scale, error, levels};
}

Levels levels_for(const Values& x, float scale) {
  const float inverse = 1.0f / scale;
  Levels levels;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    float level = x[i] * inverse;
    level = level > 7.0f ? 7.0f : level;
    level = level < -8.0f ? -8.0f : level;
    levels[i] = num::nearest(level);
  }
  return levels;
}

float least_squares(const Values& x, const Levels& levels) {
  const float xq = sum_of([&](std::size_t i) { return x[i] * levels[i]; });
  const float qq = sum_of([&](std::size_t i) { return levels[i] * levels[i]; });
  return qq > 0 ? xq / qq : 0.0f;
}

bool usable(float scale) { return scale != 0.0f && std::abs(scale) <= kLargestScale; }

Candidate best_candidate(const Values& x, float largest) {
  Candidate best;
  keep_better(x, f16{0}, Levels{}, best);
  for (const float divisor : kDivisors) {
    const f16 scale = num::round_to_f16(largest / divisor);
    // The inverse of a subnormal f16 is finite in f32.
    if (!usable(num::widen(scale))) continue;
    const Levels levels = levels_for(x, num::widen(scale));
    keep_better(x, scale, levels, best);
    const f16 refined = num::round_to_f16(least_squares(x, levels));
    if (usable(num::widen(refined))) keep_better(x, refined, levels, best);
    if (best.error == 0.0f) break;
  }
  return best;
}

float largest_of(const Values& x) {
  float largest = 0;
  for (const float value : x) {
    if (std::abs(value) > std::abs(largest)) largest = value;
  }
  return largest;
}

template <class T>
void read_block(const ConstTensor& matrix, std::int64_t row, std::int64_t block, Values& x) {
  const T* from = matrix.row<T>(row) + block * kQ4Block;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = num::widen(from[i]);
}

void read_values(const ConstTensor& matrix, std::int64_t row, std::int64_t block, Values& x) {
  if (matrix.dtype == DType::bf16) {
    read_block<bf16>(matrix, row, block, x);
  } else if (matrix.dtype == DType::f16) {
    read_block<f16>(matrix, row, block, x);
  } else {
    read_block<float>(matrix, row, block, x);
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::abs(x[i]) <= 8 * kLargestScale) continue;  // false for a NaN
    fail(ErrorCode::invalid_argument,
         "row {}, column {} is {}, expected a finite value within +-{}, the most that 4 bits with an f16 "
         "scale "
         "hold",
         row, block * kQ4Block + static_cast<std::int64_t>(i), x[i], 8 * kLargestScale);
  }
}

void write_levels(const Levels& levels, std::uint8_t* to) {
  constexpr std::size_t kHalf = kQ4Block / 2;
  for (std::size_t i = 0; i < kHalf; ++i) {
    const int low = static_cast<int>(levels[i]) + 8, high = static_cast<int>(levels[i + kHalf]) + 8;
    to[i] = static_cast<std::uint8_t>(low | (high << 4));
  }
}

}  // namespace

void require_q4_shape(const Shape& shape, const char* what) {
  if (shape.rank == 2 && shape[1] % kQ4Block == 0) return;
  fail(ErrorCode::mismatch, "{} is {}, expected a matrix with a multiple of {} columns for 4 bits", what,
       to_string(shape), kQ4Block);
}

Q4Error quantize_q4_rows(const ConstTensor& matrix, std::int64_t begin, std::int64_t end, void* to) {
  const std::int64_t blocks = matrix.shape[1] / kQ4Block;
  auto* levels = static_cast<std::uint8_t*>(to);
  auto* scales = reinterpret_cast<f16*>(levels + matrix.shape.elements() / 2);
  Q4Error total;
  Values x;
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      read_values(matrix, row, block, x);
      const Candidate best = best_candidate(x, largest_of(x));
      const std::int64_t at = row * blocks + block;
      write_levels(best.levels, levels + at * (kQ4Block / 2));
      scales[at] = best.scale;
      total += {static_cast<double>(best.error), static_cast<double>(squared_error(x, 0.0f, best.levels))};
    }
  }
  return total;
}

HostTensor quantize_q4(const ConstTensor& matrix) {
  require_q4_shape(matrix.shape, "the matrix");
  const auto bytes = std::make_shared<std::vector<std::uint8_t>>(
      static_cast<std::size_t>(storage_bytes(DType::q4, matrix.shape.elements())));
  quantize_q4_rows(matrix, 0, matrix.rows(), bytes->data());
  return {ConstTensor(bytes->data(), DType::q4, matrix.shape), bytes};
}

void dequantize_q4_row(const ConstTensor& matrix, std::int64_t row, float* to) {
  const Q4Matrix q4 = q4_matrix(matrix);
  for (std::int64_t b = 0; b < q4.row_blocks; ++b) {
    const float scale = num::widen(q4.row_scales(row)[b]);
    const std::uint8_t* levels = q4.row_levels(row) + b * (kQ4Block / 2);
    for (int i = 0; i < kBlock; ++i)
      to[b * kQ4Block + i] = scale * static_cast<float>(num::q4_level(levels, i));
  }
}

}  // namespace tandem
