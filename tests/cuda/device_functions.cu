#include <cuda_runtime.h>

#include "tests/cuda/device_functions.hpp"

namespace tandem {
namespace {

__global__ void apply_all(Function function, std::uint32_t first, std::size_t count, std::uint32_t* out) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) out[i] = num::bits_of(apply(function, num::float_of(first + static_cast<std::uint32_t>(i))));
}

}  // namespace

std::string no_device_reason() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  return count > 0 ? "" : "no CUDA device";
}

std::string run_on_device(Function function, std::uint32_t first, std::span<std::uint32_t> out) {
  std::uint32_t* device = nullptr;
  cudaError_t status = cudaMalloc(&device, out.size_bytes());
  if (status != cudaSuccess) return cudaGetErrorString(status);
  constexpr unsigned kThreads = 256;
  const auto blocks = static_cast<unsigned>((out.size() + kThreads - 1) / kThreads);
  apply_all<<<blocks, kThreads>>>(function, first, out.size(), device);
  status = cudaGetLastError();
  if (status == cudaSuccess)
    status = cudaMemcpy(out.data(), device, out.size_bytes(), cudaMemcpyDeviceToHost);
  cudaFree(device);
  return status == cudaSuccess ? "" : cudaGetErrorString(status);
}

}  // namespace tandem
