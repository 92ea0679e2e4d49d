#include "backends/cpu/kernels/q4_q8.hpp"
#include "backends/cpu/kernels/q4_real.hpp"
#include "backends/cpu/kernels/set.hpp"

namespace tandem::cpu::TANDEM_ISA {
namespace {

/// Tokens that share one walk over a weight row.
constexpr int kQ4Tokens = 4;

/// Dot products of neighbouring weight rows with rows of x as Gear has laid them out.
template <class Gear, int rows, int tokens>
TANDEM_FN void q4_dots(const Q4Matrix& weight, std::int64_t row, const float* x, std::int64_t x_stride,
                       float (*products)[tokens]) {
  const std::int64_t whole = weight.row_blocks / q4::kWidth, left = weight.row_blocks % q4::kWidth;
  const std::uintptr_t ahead = q4::bytes_ahead(weight.row_blocks, rows);
  const std::uint8_t* levels[rows];
  const f16* scales[rows];
  for (int r = 0; r < rows; ++r)
    levels[r] = weight.row_levels(row + r), scales[r] = weight.row_scales(row + r);
  q4::Vec lanes[q4::kLaneVectors][rows][tokens] = {};
#pragma GCC unroll 1
  for (std::int64_t g = 0; g < whole; ++g) {
    for (int r = 0; r < rows; ++r) q4::prefetch(levels[r], ahead);
    Gear::template add_group<rows, tokens>(levels, scales, x, x_stride, lanes[g % q4::kLaneVectors]);
    for (int r = 0; r < rows; ++r) levels[r] += q4::kGroupLevelBytes, scales[r] += q4::kWidth;
    x += Gear::kGroupFloats;
  }
  if (left > 0) {
    q4::Group last[rows];
    for (int r = 0; r < rows; ++r) {
      q4::fill(last[r], levels[r], scales[r], left);
      levels[r] = last[r].levels, scales[r] = last[r].scales;
    }
    Gear::template add_group<rows, tokens>(levels, scales, x, x_stride, lanes[whole % q4::kLaneVectors]);
  }
  for (int r = 0; r < rows; ++r) {
    for (int t = 0; t < tokens; ++t) {
      q4::Vec sums[q4::kLaneVectors];
      for (int i = 0; i < q4::kLaneVectors; ++i) sums[i] = lanes[i][r][t];
      products[r][t] = simd::join_lanes(sums);
    }
  }
}

/// Tokens [token, token + tokens) of weight rows [begin, end), `rows` of them at a time; returns the first
/// row that was left over.
template <class Gear, int rows, int tokens>
std::int64_t q4_rows(const Linear& op, std::int64_t token, const float* x, std::int64_t x_stride,
                     std::int64_t begin, std::int64_t end) {
  const Q4Matrix weight = q4_matrix(op.weight);
  std::int64_t row = begin;
  for (; row + rows <= end; row += rows) {
    float products[rows][tokens];
    q4_dots<Gear, rows, tokens>(weight, row, x, x_stride, products);
    for (int r = 0; r < rows; ++r) {
      for (int t = 0; t < tokens; ++t) {
        float* y = op.y.row<float>(token + t) + row + r;
        *y = op.residual ? op.residual.row<float>(token + t)[row + r] + products[r][t] : products[r][t];
      }
    }
  }
  return row;
}

template <class Gear, int rows, int tokens>
void q4_tokens(const Linear& op, std::int64_t token, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = op.x.row_elements(), stride = Gear::laid_out(n);
  float* x = thread_scratch(stride * tokens);
  for (int t = 0; t < tokens; ++t) Gear::lay_out(op.x.row<float>(token + t), n, x + t * stride);
  const std::int64_t row = q4_rows<Gear, rows, tokens>(op, token, x, stride, begin, end);
  if constexpr (rows > 1) q4_rows<Gear, 1, tokens>(op, token, x, stride, row, end);
}

template <class Gear>
void q4_all_tokens(const Linear& op, std::int64_t begin, std::int64_t end) {
  std::int64_t t = 0;
  for (; t + kQ4Tokens <= op.x.rows(); t += kQ4Tokens)
    q4_tokens<Gear, Gear::kRowsOfSeveral, kQ4Tokens>(op, t, begin, end);
  for (; t < op.x.rows(); ++t) q4_tokens<Gear, Gear::kRowsOfOne, 1>(op, t, begin, end);
}

}  // namespace

void q4_linear(const Linear& op, std::int64_t begin, std::int64_t end) {
  if (op.activations == Activations::q8) {
    q4_all_tokens<q4::Q8>(op, begin, end);
  } else {
    q4_all_tokens<q4::Real>(op, begin, end);
  }
}

}  // namespace tandem::cpu::TANDEM_ISA
