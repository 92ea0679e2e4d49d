#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "core/error.hpp"

namespace tandem::cuda {

/// Throws what CUDA reports: Error(out_of_memory) when memory could not be had, which leaves the device
/// usable, and Error(device_lost) for everything else. `where` says what was being done.
inline void check(cudaError_t status, std::string_view where) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // an error that can be survived would be reported again otherwise
  fail(status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device_lost, "{}: {} ({})",
       where, cudaGetErrorString(status), cudaGetErrorName(status));
}

}  // namespace tandem::cuda
