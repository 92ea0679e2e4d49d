#include "backends/reference/views.hpp"

#include <algorithm>

#include "core/q4.hpp"

namespace tandem::reference {

void widen_row(const ConstTensor& matrix, std::int64_t i, double* out) {
  const std::int64_t n = matrix.row_elements();
  if (matrix.dtype == DType::q4) {
    const Q4Matrix q4 = q4_matrix(matrix);
    for (std::int64_t c = 0; c < n; ++c) {
      const std::int64_t b = c / kQ4Block;
      const int level = num::q4_level(q4.row_levels(i) + b * (kQ4Block / 2), static_cast<int>(c % kQ4Block));
      out[c] = static_cast<double>(num::widen(q4.row_scales(i)[b])) * level;
    }
  } else if (matrix.dtype == DType::bf16) {
    const bf16* row = matrix.row<bf16>(i);
    std::transform(row, row + n, out, [](bf16 value) { return static_cast<double>(num::widen(value)); });
  } else {
    const float* row = matrix.row<float>(i);
    std::copy(row, row + n, out);
  }
}

}  // namespace tandem::reference
