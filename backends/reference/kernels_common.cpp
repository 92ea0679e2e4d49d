#include <algorithm>
#include <cassert>

#include "backends/reference/functions.hpp"
#include "backends/reference/kernels.hpp"
#include "backends/reference/views.hpp"

namespace tandem::reference {
namespace {

/// Rows of a weight matrix that are widened at a time: 27B's widest, 17408 columns, then takes 2 MiB and
/// stays in cache.
constexpr std::int64_t kBlockRows = 16;

}  // namespace

void run(const Embed& op) {
  for (std::int64_t i = 0; i < op.ids.rows(); ++i) {
    const std::int32_t id = *op.ids.row<std::int32_t>(i);
    assert(id >= 0 && id < op.table.rows());
    widen_row(op.table, id, op.y.row<double>(i));
  }
}

void run(const GatherRows& op) {
  for (std::int64_t i = 0; i < op.rows.rows(); ++i) {
    const std::int32_t row = *op.rows.row<std::int32_t>(i);
    assert(row >= 0 && row < op.x.rows());
    row_array(op.y, i) = row_array(op.x, row);
  }
}

void run(const RmsNorm& op) {
  const Eigen::ArrayXd factor = 1.0 + widened_vector(op.weight);
  for (std::int64_t i = 0; i < op.x.rows(); ++i) {
    const ConstArrayMap x = row_array(op.x, i);
    row_array(op.y, i) = rms_normalized(x, op.eps) * factor;
  }
}

void run(const Linear& op) {
  const std::int64_t outputs = op.weight.rows();
  const std::int64_t inputs = op.weight.row_elements();
  RowMajorMatrix block(kBlockRows, inputs);
  Vector product(kBlockRows);
  for (std::int64_t first = 0; first < outputs; first += kBlockRows) {
    const std::int64_t count = std::min(kBlockRows, outputs - first);
    for (std::int64_t m = 0; m < count; ++m) widen_row(op.weight, first + m, block.row(m).data());
    // One matrix-vector product a token, not one matrix-matrix product: a token's value does not depend on
    // its batch.
    for (std::int64_t i = 0; i < op.x.rows(); ++i) {
      const ConstVectorMap x(op.x.row<double>(i), inputs);
      product.head(count).noalias() = block.topRows(count) * x;
      if (op.residual) product.head(count) += ConstVectorMap(op.residual.row<double>(i) + first, count);
      VectorMap(op.y.row<double>(i) + first, count) = product.head(count);
    }
  }
}

void run(const SiluMul& op) {
  for (std::int64_t i = 0; i < op.gate.rows(); ++i) {
    row_array(op.y, i) = row_array(op.gate, i).unaryExpr(&silu) * row_array(op.up, i);
  }
}

}  // namespace tandem::reference
