#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "core/error.hpp"

namespace tandem::cuda {

/// What CUDA's status means to a caller. A launch that CUDA or a kernel's own checks refuse (its shape, its
/// grid, no code for this architecture) says nothing about the device: the same call fails again, others
/// work.
inline ErrorCode code_of(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return ErrorCode::out_of_memory;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorNotSupported:
      return ErrorCode::unsupported;
    default:
      return ErrorCode::device_lost;
  }
}

/// Throws what CUDA reports. `where` says what was being done.
inline void check(cudaError_t status, std::string_view where) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // an error that can be survived would be reported again otherwise
  fail(code_of(status), "{}: {} ({})", where, cudaGetErrorString(status), cudaGetErrorName(status));
}

}  // namespace tandem::cuda
