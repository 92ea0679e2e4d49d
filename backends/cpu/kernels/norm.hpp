#pragma once

#include "backends/cpu/kernels/dot.hpp"

namespace tandem::cpu::TANDEM_ISA {

/// As the definition of the same name (scalar/attention.hpp).
TANDEM_FN void rms_norm_row(std::int64_t n, const float* x, const float* weight, float eps, float* y) {
  const float r = num::inverse_sqrt(dot(x, x, n) / static_cast<float>(n) + eps);
  for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] * r) * (1.0f + weight[i]);
}

}  // namespace tandem::cpu::TANDEM_ISA
