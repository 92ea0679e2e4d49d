#pragma once

#include <algorithm>
#include <cmath>

/// The model's scalar functions in float64, from <cmath>: nothing here is compared bit for bit.
namespace tandem::reference {

/// 1 / (1 + e^-x). For x below -709 e^-x is infinite and the value 0, as it should be.
inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

inline double silu(double x) { return x * sigmoid(x); }

/// log(1 + e^x), and x itself above 20. The threshold is part of the model (torch.nn.functional.softplus,
/// which transformers calls, has it) and moves the value by less than e^-20 = 2.1e-9; it is kept because what
/// is judged here is the model as it was trained. The other form is log1p(exp(x)) written so that it cannot
/// overflow.
inline double softplus(double x) {
  constexpr double kThreshold = 20.0;
  return x > kThreshold ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

}  // namespace tandem::reference
