#pragma once

#include <Eigen/Core>
#include <cmath>
#include <cstdint>

#include "core/tensor.hpp"

/// Operands as Eigen sees them. None of these copies an activation or a state.
namespace tandem::reference {

using Vector = Eigen::VectorXd;
using VectorMap = Eigen::Map<Eigen::VectorXd>;
using ConstVectorMap = Eigen::Map<const Eigen::VectorXd>;
using ArrayMap = Eigen::Map<Eigen::ArrayXd>;
using ConstArrayMap = Eigen::Map<const Eigen::ArrayXd>;

using RowMajorMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixMap = Eigen::Map<RowMajorMatrix>;
using ConstMatrixMap = Eigen::Map<const RowMajorMatrix>;

/// All elements of row i of an activation.
inline ArrayMap row_array(const Tensor& t, std::int64_t i) { return {t.row<double>(i), t.row_elements()}; }
inline ConstArrayMap row_array(const ConstTensor& t, std::int64_t i) {
  return {t.row<double>(i), t.row_elements()};
}

/// Head h of row i of an activation [N, heads, D] whose heads lie D, or `head_stride`, elements apart.
inline ArrayMap head_array(const Tensor& t, std::int64_t i, std::int64_t h) {
  return {t.row<double>(i) + h * t.shape[2], t.shape[2]};
}
inline ConstArrayMap head_array(const ConstTensor& t, std::int64_t i, std::int64_t h,
                                std::int64_t head_stride) {
  return {t.row<double>(i) + h * head_stride, t.shape[2]};
}
inline ConstArrayMap head_array(const ConstTensor& t, std::int64_t i, std::int64_t h) {
  return head_array(t, i, h, t.shape[2]);
}

/// A float32 vector of a layer, widened. Those are packed (validate() sees to it).
inline Eigen::ArrayXd widened_vector(const ConstTensor& t) {
  return Eigen::Map<const Eigen::ArrayXf>(t.row<float>(0), t.rows()).cast<double>();
}

/// Row i of a float32, bfloat16 or q4 matrix, widened into `out`, which has its length. Widening is exact.
void widen_row(const ConstTensor& matrix, std::int64_t i, double* out);

/// x / sqrt(mean(x^2) + eps), as an expression over x, not yet evaluated.
inline auto rms_normalized(const ConstArrayMap& x, double eps) {
  const double root = std::sqrt(x.square().mean() + eps);
  return x / root;
}

}  // namespace tandem::reference
