#include "backends/cpu/kernels/set.hpp"
#include "core/q4.hpp"

namespace tandem::cpu::TANDEM_ISA {
namespace {

/// x in 8 bits: levels, then scales.
struct Q8Row {
  const std::int8_t* levels;
  const float* scales;
};

Q8Row quantized(const float* x, std::int64_t n) {
  float* scales = thread_scratch(n / kQ4Block + n / 4);
  auto* levels = reinterpret_cast<std::int8_t*>(scales + n / kQ4Block);
  for (std::int64_t b = 0; b < n / kQ4Block; ++b) {
    scales[b] = num::quantize_q8(x + b * kQ4Block, levels + b * kQ4Block);
  }
  return {levels, scales};
}

}  // namespace

void q4_linear(const Linear& op, std::int64_t begin, std::int64_t end) {
  const Q4Matrix q4 = q4_matrix(op.weight);
  const std::int64_t n = op.x.row_elements();
  for (std::int64_t t = 0; t < op.x.rows(); ++t) {
    const float* x = op.x.row<float>(t);
    const Q8Row q8 = op.activations == Activations::q8 ? quantized(x, n) : Q8Row{};
    for (std::int64_t row = begin; row < end; ++row) {
      const float product =
          op.activations == Activations::q8
              ? num::dot_q4q8(q4.row_levels(row), q4.row_scales(row), q8.levels, q8.scales, n)
              : num::dot_q4(q4.row_levels(row), q4.row_scales(row), x, n);
      op.y.row<float>(t)[row] = op.residual ? op.residual.row<float>(t)[row] + product : product;
    }
  }
}

}  // namespace tandem::cpu::TANDEM_ISA
