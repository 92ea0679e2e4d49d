#include "core/backend.hpp"

#include <algorithm>
#include <chrono>

#include "core/error.hpp"
#include "core/host_memory.hpp"

namespace tandem {
namespace {

/// Of a backend whose calls return when their work is done.
class HostEvent final : public Event {
 public:
  void wait() override {}
  double ms_since(const Event& earlier) override {
    const auto* other = dynamic_cast<const HostEvent*>(&earlier);
    if (other == nullptr)
      fail(ErrorCode::invalid_argument, "an event is compared with one of another backend");
    return std::chrono::duration<double, std::milli>(at_ - other->at_).count();
  }

 private:
  std::chrono::steady_clock::time_point at_ = std::chrono::steady_clock::now();
};

class FinishedChecksums final : public PendingChecksums {
 public:
  explicit FinishedChecksums(std::vector<Checksum> checksums) : checksums_(std::move(checksums)) {}
  std::vector<Checksum> wait() override { return std::move(checksums_); }

 private:
  std::vector<Checksum> checksums_;
};

/// Piece by piece, as a range may be larger than what the host has left.
Checksum download_checksum(Backend& backend, const ByteRange& range) {
  std::vector<std::byte> bytes(std::min(range.bytes, kChecksumPieceBytes));
  std::vector<PieceDigest> pieces;
  for (std::size_t begin = 0; begin < range.bytes; begin += kChecksumPieceBytes) {
    const auto piece = std::span(bytes).first(std::min(kChecksumPieceBytes, range.bytes - begin));
    backend.download(piece.data(), static_cast<const std::byte*>(range.data) + begin, piece.size());
    pieces.push_back(piece_digest(piece));
  }
  return join_pieces(pieces);
}

}  // namespace

std::unique_ptr<Event> finished_event() { return std::make_unique<HostEvent>(); }

std::unique_ptr<PendingChecksums> finished_checksums(std::vector<Checksum> checksums) {
  return std::make_unique<FinishedChecksums>(std::move(checksums));
}

ResidentTensor Backend::generate(const RandomTensor& weight) {
  ResidentTensor resident = load(make_host_tensor(info().name, weight));
  resident.owned_bytes = weight.bytes();
  return resident;
}

Buffer Backend::allocate_staging(std::size_t bytes) { return allocate_host(info().name, bytes); }

void Backend::send(void* to, const void* from_staging, std::size_t bytes) { upload(to, from_staging, bytes); }

void Backend::receive(void* to_staging, const void* from, std::size_t bytes) {
  download(to_staging, from, bytes);
}

std::unique_ptr<PendingChecksums> Backend::checksums(std::span<const ByteRange> ranges) {
  validate(ranges);
  std::vector<Checksum> checksums;
  for (const ByteRange& range : ranges) checksums.push_back(download_checksum(*this, range));
  return finished_checksums(std::move(checksums));
}

Backend& staging_owner(std::span<Backend* const> backends) {
  const auto device =
      std::find_if(backends.begin(), backends.end(), [](const Backend* b) { return !b->info().host_memory; });
  return device == backends.end() ? *backends.front() : **device;
}

}  // namespace tandem
