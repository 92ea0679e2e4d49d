#include "backends/reference/views.hpp"

#include <algorithm>

#include "core/numerics.hpp"

namespace tandem::reference {

void widen_row(const ConstTensor& matrix, std::int64_t i, double* out) {
  const std::int64_t n = matrix.row_elements();
  if (matrix.dtype == DType::bf16) {
    const bf16* row = matrix.row<bf16>(i);
    std::transform(row, row + n, out, [](bf16 value) { return static_cast<double>(num::widen(value)); });
  } else {
    const float* row = matrix.row<float>(i);
    std::copy(row, row + n, out);
  }
}

}  // namespace tandem::reference
