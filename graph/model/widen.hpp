#pragma once

#include "core/tensor.hpp"

namespace tandem {

/// An f32 copy of a contiguous f32, bf16 or f16 tensor in host memory. Exact.
HostTensor widen_to_f32(const ConstTensor& tensor);

}  // namespace tandem
