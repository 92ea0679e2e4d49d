#pragma once

#include "backends/cuda/kernels.hpp"

namespace tandem::cuda {

/// The rows of `linear`'s table for a q4 weight: one token, several tokens.
cudaError_t q4_linear_rows(const Linear& op, const Launch& where);
cudaError_t q4_linear_tile(const Linear& op, const Launch& where);

}  // namespace tandem::cuda
