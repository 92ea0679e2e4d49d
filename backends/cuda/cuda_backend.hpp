#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/backend.hpp"

namespace tandem {

struct CudaOptions {
  int device = 0;                  ///< as CUDA numbers them
  std::uint64_t memory_limit = 0;  ///< bytes that allocate() gives in all; 0: what the device has
  std::string variant = "";        ///< force this kernel variant; empty: the best one for each operator
};

/// The devices of this machine.
struct CudaDevices {
  int count = 0;
  std::string reason;  ///< why there is none; empty otherwise
};
CudaDevices cuda_devices();

/// One NVIDIA GPU, named "cuda:0", "cuda:1", ... Every operator in f32 with the bits of the definition. Work
/// is queued on one stream; weights are copied to the device. Throws Error(unsupported) when there is no such
/// device or variant, Error(out_of_memory) or Error(device_lost) with what CUDA said.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);

}  // namespace tandem
