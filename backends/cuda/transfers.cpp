#include "backends/cuda/transfers.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "backends/cuda/status.hpp"

namespace tandem::cuda {
namespace {

constexpr std::size_t kStagingBytes = std::size_t{64} << 20;
constexpr std::size_t kPieceBytes = std::size_t{8} << 20;
constexpr std::size_t kArgumentBytes = std::size_t{4} << 20;
constexpr std::size_t kPieceAlignment = 256;
constexpr std::size_t kScratchBytes = std::size_t{64} << 20;
/// Those of 4096 blocks.
constexpr std::size_t kChecksumBytes = std::size_t{64} << 10;

/// What a fetch brings into the page-locked memory of all fetches.
class Fetched final : public PendingChecksums {
 public:
  Fetched(std::unique_ptr<Event> arrived, std::span<const Checksum> memory, const std::uint64_t& fetches)
      : arrived_(std::move(arrived)), memory_(memory), fetches_(fetches), number_(fetches) {}

  std::vector<Checksum> wait() override {
    assert(number_ == fetches_);
    arrived_->wait();
    return {memory_.begin(), memory_.end()};
  }

 private:
  std::unique_ptr<Event> arrived_;
  std::span<const Checksum> memory_;
  const std::uint64_t& fetches_;
  std::uint64_t number_;
};

}  // namespace

StagingRing::StagingRing(const std::string& who, Stream& stream, DeviceMemory* device_memory,
                         std::size_t bytes)
    : stream_(stream),
      host_(allocate_pinned(who, bytes)),
      device_(device_memory != nullptr ? device_memory->allocate(bytes) : Buffer()) {}

StagingRing::Piece StagingRing::take(std::size_t bytes) {
  if (bytes > host_.bytes() - next_) {
    stream_.synchronize();
    next_ = 0;
  }
  const Piece piece{static_cast<std::byte*>(host_.data()) + next_,
                    device_.data() == nullptr ? nullptr : static_cast<std::byte*>(device_.data()) + next_};
  next_ = std::min(host_.bytes(), (next_ + bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment);
  return piece;
}

Transfers::Transfers(std::string who, Stream& stream, DeviceMemory& memory)
    : who_(std::move(who)),
      stream_(stream),
      memory_(memory),
      staging_(who_, stream, nullptr, kStagingBytes),
      arguments_(std::make_unique<StagingRing>(who_, stream, &memory, kArgumentBytes)),
      scratch_(memory.allocate(kScratchBytes)),
      checksums_(allocate_pinned(who_, kChecksumBytes)) {}

void Transfers::to_device(void* to, const void* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t count = std::min(kPieceBytes, bytes - done);
    void* piece = staging_.take(count).host;
    std::memcpy(piece, static_cast<const std::byte*>(from) + done, count);
    check(cudaMemcpyAsync(static_cast<std::byte*>(to) + done, piece, count, cudaMemcpyHostToDevice,
                          stream_.handle()),
          stream_.where());
    done += count;
  }
}

void Transfers::upload(void* to, const void* from, std::size_t bytes) {
  to_device(to, from, bytes);
  traffic_.uploaded += bytes;
}

void Transfers::load(void* to, const void* from, std::size_t bytes) {
  to_device(to, from, bytes);
  traffic_.weights += bytes;
}

void Transfers::download(void* to, const void* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t count = std::min(kPieceBytes, bytes - done);
    void* piece = staging_.take(count).host;
    check(cudaMemcpyAsync(piece, static_cast<const std::byte*>(from) + done, count, cudaMemcpyDeviceToHost,
                          stream_.handle()),
          stream_.where());
    stream_.synchronize();
    std::memcpy(static_cast<std::byte*>(to) + done, piece, count);
    done += count;
  }
  traffic_.downloaded += bytes;
}

void Transfers::send(void* to, const void* from_pinned, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from_pinned, bytes, cudaMemcpyHostToDevice, stream_.handle()), stream_.where());
  traffic_.uploaded += bytes;
}

void Transfers::receive(void* to_pinned, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to_pinned, from, bytes, cudaMemcpyDeviceToHost, stream_.handle()), stream_.where());
  traffic_.downloaded += bytes;
}

std::unique_ptr<PendingChecksums> Transfers::fetch(const Checksum* from, std::size_t count) {
  const std::size_t bytes = count * sizeof(Checksum);
  if (bytes > checksums_.bytes()) {
    stream_.synchronize();  // an earlier fetch that nobody waited for
    checksums_ = allocate_pinned(who_, bytes);
  }
  check(cudaMemcpyAsync(checksums_.data(), from, bytes, cudaMemcpyDeviceToHost, stream_.handle()),
        stream_.where());
  traffic_.checksums += bytes;
  ++fetches_;
  return std::make_unique<Fetched>(
      stream_.record(), std::span(static_cast<const Checksum*>(checksums_.data()), count), fetches_);
}

cudaError_t Transfers::push(const void* host, std::size_t bytes, const void** device) {
  if (bytes > arguments_->bytes()) {
    stream_.synchronize();  // kernels may still read the old ring
    arguments_ = std::make_unique<StagingRing>(who_, stream_, &memory_, 2 * bytes);
  }
  const StagingRing::Piece piece = arguments_->take(bytes);
  std::memcpy(piece.host, host, bytes);
  *device = piece.device;
  traffic_.arguments += bytes;
  return cudaMemcpyAsync(piece.device, piece.host, bytes, cudaMemcpyHostToDevice, stream_.handle());
}

cudaError_t Transfers::scratch(std::size_t bytes, void** device) {
  if (bytes > scratch_.bytes()) {
    stream_.synchronize();
    scratch_ = memory_.allocate(bytes);
  }
  *device = scratch_.data();
  return cudaSuccess;
}

}  // namespace tandem::cuda
