#include <cstring>

#include "backends/cpu/kernels/dot.hpp"
#include "backends/cpu/kernels/norm.hpp"
#include "backends/cpu/kernels/set.hpp"

namespace tandem::cpu::TANDEM_ISA {

void embed(const Embed& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = op.y.row_elements();
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t id = op.ids.row<std::int32_t>(0)[t];
    float* y = op.y.row<float>(t);
    if (op.table.dtype == DType::bf16) {
      const bf16* row = op.table.row<bf16>(id);
      for (std::int64_t i = 0; i < n; ++i) y[i] = num::widen(row[i]);
    } else {
      std::memcpy(y, op.table.row<float>(id), static_cast<std::size_t>(n) * sizeof(float));
    }
  }
}

void gather_rows(const GatherRows& op, std::int64_t begin, std::int64_t end) {
  const auto bytes = static_cast<std::size_t>(op.y.row_elements()) * sizeof(float);
  for (std::int64_t m = begin; m < end; ++m) {
    std::memcpy(op.y.row<float>(m), op.x.row<float>(op.rows.row<std::int32_t>(0)[m]), bytes);
  }
}

void rms_norm(const RmsNorm& op, std::int64_t begin, std::int64_t end) {
  const auto eps = static_cast<float>(op.eps);
  for (std::int64_t t = begin; t < end; ++t) {
    rms_norm_row(op.x.row_elements(), op.x.row<float>(t), op.weight.row<float>(0), eps, op.y.row<float>(t));
  }
}

void silu_mul(const SiluMul& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    const float* gate = op.gate.row<float>(t);
    const float* up = op.up.row<float>(t);
    float* y = op.y.row<float>(t);
    for (std::int64_t i = 0; i < op.y.row_elements(); ++i) y[i] = num::silu(gate[i]) * up[i];
  }
}

void sigmoid_gate(const SigmoidGate& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t heads = op.x.shape[1], n = op.x.shape[2];
  for (std::int64_t t = begin; t < end; ++t) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const float* x = op.x.row<float>(t) + h * n;
      const float* gate = op.gate.row<float>(t) + h * op.head_stride;
      float* y = op.y.row<float>(t) + h * n;
      for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * num::sigmoid(gate[i]);
    }
  }
}

}  // namespace tandem::cpu::TANDEM_ISA
