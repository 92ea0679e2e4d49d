#include "backends/cuda/device_memory.hpp"

#include <algorithm>
#include <limits>

#include "backends/cuda/status.hpp"

namespace tandem::cuda {
namespace {

std::uint64_t free_bytes(const std::string& who, int device) {
  std::size_t free = 0, total = 0;
  check(cudaSetDevice(device), who);
  check(cudaMemGetInfo(&free, &total), who);
  return free;
}

}  // namespace

DeviceMemory::DeviceMemory(std::string who, int device, std::uint64_t limit)
    : who_(std::move(who)),
      device_(device),
      limit_(limit > 0 ? limit : std::numeric_limits<std::uint64_t>::max()),
      used_(std::make_shared<std::uint64_t>(0)) {}

std::uint64_t DeviceMemory::available() const {
  return std::min(limit_ - std::min(limit_, *used_), free_bytes(who_, device_));
}

Buffer DeviceMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return {};
  void* data = nullptr;
  const bool over = bytes > limit_ - std::min(limit_, *used_);
  check(cudaSetDevice(device_), who_);
  const cudaError_t status = over ? cudaErrorMemoryAllocation : cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    fail(ErrorCode::out_of_memory, "{}: cannot allocate {}; {} are free{}", who_, human_bytes(bytes),
         human_bytes(available()), over ? " under the limit that was set" : "");
  }
  check(status, who_);
  *used_ += bytes;
  // cudaFree waits for the device, so that nothing still uses the memory.
  return {data, bytes, [used = used_, bytes, device = device_](void* memory) {
            static_cast<void>(cudaSetDevice(device));
            static_cast<void>(cudaFree(memory));
            *used -= bytes;
          }};
}

Buffer allocate_pinned(const std::string& who, std::size_t bytes) {
  if (bytes == 0) return {};
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    fail(ErrorCode::out_of_memory, "{}: cannot page-lock {} of host memory", who, human_bytes(bytes));
  }
  check(status, who);
  return {data, bytes, [](void* memory) { static_cast<void>(cudaFreeHost(memory)); }};
}

}  // namespace tandem::cuda
