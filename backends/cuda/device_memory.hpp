#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "core/backend.hpp"

namespace tandem::cuda {

/// Allocations on one device, counted against a limit. Buffers may outlive it. Not thread-safe.
class DeviceMemory {
 public:
  /// `who` begins the messages; a limit of 0 is none.
  DeviceMemory(std::string who, int device, std::uint64_t limit);

  /// Throws Error(out_of_memory) saying how much was asked for and how much there is.
  Buffer allocate(std::size_t bytes);
  /// Bytes that allocate() could still give.
  std::uint64_t available() const;

 private:
  std::string who_;
  int device_;
  std::uint64_t limit_;
  std::shared_ptr<std::uint64_t> used_;  ///< shared with the buffers, which give back
};

/// Page-locked host memory, usable with every device. Throws Error(out_of_memory).
Buffer allocate_pinned(const std::string& who, std::size_t bytes);

}  // namespace tandem::cuda
