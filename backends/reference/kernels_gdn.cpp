#include <algorithm>
#include <cmath>

#include "backends/reference/functions.hpp"
#include "backends/reference/kernels.hpp"
#include "backends/reference/views.hpp"

/// The operators of a Gated DeltaNet layer (Yang, Kautz, Hatamizadeh 2024, "Gated Delta Networks"; as in
/// Qwen3.5).
namespace tandem::reference {
namespace {

/// One sequence's inputs of the convolution, oldest first: its state, then its rows of x. Input 0 is the
/// first row of x.
class ConvInputs {
 public:
  ConvInputs(const ConstTensor& x, const ConvSegment& segment) : x_(x), segment_(segment) {}

  ConstArrayMap operator[](std::int64_t t) const {
    return t >= 0 ? row_array(x_, segment_.range.first_row + t)
                  : row_array(segment_.state_in, segment_.state_in.rows() + t);
  }

 private:
  const ConstTensor& x_;
  const ConvSegment& segment_;
};

/// One value head over one sequence's tokens. `state`, [Dk, Dv], goes from the state before them to the state
/// after them.
void delta_head(const GdnDelta& op, const RowRange& range, std::int64_t h, MatrixMap state) {
  const std::int64_t key_head = h / (op.v.shape[1] / op.k.shape[1]);
  for (std::int64_t i = range.first_row; i < range.first_row + range.rows; ++i) {
    const auto q = head_array(op.q, i, key_head).matrix();
    const auto k = head_array(op.k, i, key_head).matrix();
    const auto v = head_array(op.v, i, h).matrix();
    state *= std::exp(op.g.row<double>(i)[h]);
    const Vector d = (v - state.transpose() * k) * op.beta.row<double>(i)[h];
    state.noalias() += k * d.transpose();
    head_array(op.o, i, h).matrix().noalias() = state.transpose() * q;
  }
}

/// x / sqrt(sum(x^2) + eps) * scale for every head of row i. The sum, not the mean, as in the model's l2norm.
void l2_normalize_heads(const ConstTensor& x, double eps, double scale, std::int64_t i, const Tensor& y) {
  for (std::int64_t h = 0; h < x.shape[1]; ++h) {
    const ConstArrayMap in = head_array(x, i, h);
    const double root = std::sqrt(in.square().sum() + eps);
    head_array(y, i, h) = in / root * scale;
  }
}

}  // namespace

void run(const GdnGates& op) {
  const Eigen::ArrayXd rate = widened_vector(op.a_log).unaryExpr([](double a) { return -std::exp(a); });
  const Eigen::ArrayXd dt_bias = widened_vector(op.dt_bias);
  for (std::int64_t i = 0; i < op.a.rows(); ++i) {
    row_array(op.beta, i) = row_array(op.b, i).unaryExpr(&sigmoid);
    row_array(op.g, i) = rate * (row_array(op.a, i) + dt_bias).unaryExpr(&softplus);
  }
}

void run(const GdnConv& op) {
  const std::int64_t channels = op.weight.rows();
  const std::int64_t taps = op.weight.row_elements();
  RowMajorMatrix weight(channels, taps);
  for (std::int64_t c = 0; c < channels; ++c) widen_row(op.weight, c, weight.row(c).data());
  Eigen::ArrayXd sum(channels);
  for (const ConvSegment& segment : op.segments) {
    const ConvInputs inputs(op.x, segment);
    const auto& [first_row, rows] = segment.range;
    const std::int64_t remembered = taps - 1;
    for (std::int64_t j = 0; j < remembered; ++j) {
      row_array(segment.state_out, j) = inputs[rows - remembered + j];
    }
    for (std::int64_t t = 0; t < rows; ++t) {
      sum.setZero();
      for (std::int64_t j = 0; j < taps; ++j) sum += weight.col(j).array() * inputs[t - remembered + j];
      row_array(op.y, first_row + t) = sum.unaryExpr(&silu);
    }
  }
}

void run(const GdnQkNorm& op) {
  for (std::int64_t i = 0; i < op.q_in.rows(); ++i) {
    l2_normalize_heads(op.q_in, op.eps, op.scale, i, op.q);
    l2_normalize_heads(op.k_in, op.eps, 1.0, i, op.k);
  }
}

void run(const GdnDelta& op) {
  const std::int64_t key_width = op.k.shape[2];
  const std::int64_t value_width = op.v.shape[2];
  for (const DeltaSegment& segment : op.segments) {
    for (std::int64_t h = 0; h < op.v.shape[1]; ++h) {
      const MatrixMap state(segment.state_out.row<double>(h), key_width, value_width);
      row_array(segment.state_out, h) = row_array(segment.state_in, h);
      delta_head(op, segment.range, h, state);
    }
  }
}

void run(const GdnGatedNorm& op) {
  const Eigen::ArrayXd weight = widened_vector(op.weight);
  for (std::int64_t i = 0; i < op.o.rows(); ++i) {
    for (std::int64_t h = 0; h < op.o.shape[1]; ++h) {
      const ConstArrayMap o = head_array(op.o, i, h);
      head_array(op.y, i, h) = weight * rms_normalized(o, op.eps) * head_array(op.z, i, h).unaryExpr(&silu);
    }
  }
}

}  // namespace tandem::reference
