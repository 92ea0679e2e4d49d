#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/cuda/device_memory.hpp"
#include "backends/cuda/kernels.hpp"
#include "backends/cuda/stream.hpp"

namespace tandem::cuda {

/// A ring of page-locked memory with, where wanted, the same ring on the device. A piece is in use until the
/// stream has gone past it; when the ring is full, the host waits for the stream.
class StagingRing {
 public:
  StagingRing(const std::string& who, Stream& stream, DeviceMemory* device_memory, std::size_t bytes);

  std::size_t bytes() const { return host_.bytes(); }
  struct Piece {
    void* host;
    void* device;  ///< null without a ring on the device
  };
  /// REQUIRES: bytes <= bytes().
  Piece take(std::size_t bytes);

 private:
  Stream& stream_;
  Buffer host_, device_;
  std::size_t next_ = 0;
};

/// Everything that crosses the bus of one device, counted. Not thread-safe.
class Transfers final : public DeviceArguments {
 public:
  Transfers(std::string who, Stream& stream, DeviceMemory& memory);

  void upload(void* to, const void* from, std::size_t bytes);
  void download(void* to, const void* from, std::size_t bytes);
  void send(void* to, const void* from_pinned, std::size_t bytes);
  void receive(void* to_pinned, const void* from, std::size_t bytes);
  /// Any size of pageable memory, in pieces through the ring: copying into a piece overlaps with sending the
  /// one before.
  void load(void* to, const void* from, std::size_t bytes);

  /// Checksums from device memory, which may be written again when this returns.
  std::unique_ptr<PendingChecksums> fetch(const Checksum* from, std::size_t count);

  cudaError_t push(const void* host, std::size_t bytes, const void** device) override;
  cudaError_t scratch(std::size_t bytes, void** device) override;

  const Traffic& traffic() const { return traffic_; }

 private:
  void to_device(void* to, const void* from, std::size_t bytes);

  std::string who_;
  Stream& stream_;
  DeviceMemory& memory_;
  StagingRing staging_;
  std::unique_ptr<StagingRing> arguments_;  ///< replaced by a larger one when a list does not fit
  Buffer scratch_;
  Buffer checksums_;  ///< page-locked, of the last fetch; replaced by a larger one
  std::uint64_t fetches_ = 0;
  Traffic traffic_;
};

}  // namespace tandem::cuda
