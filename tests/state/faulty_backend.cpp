#include "tests/state/faulty_backend.hpp"

#include "core/error.hpp"

namespace tandem::testing {

void FaultyBackend::count() {
  ++calls_;
  if (to_failure_ >= 0 && to_failure_-- == 0) fail(ErrorCode::device_lost, "{}: planted", info().name);
}

void FaultyBackend::carried(void* data) {
  ++transfers_;
  if (to_flip_ >= 0 && to_flip_-- == 0) static_cast<unsigned char*>(data)[0] ^= 4;
}

Buffer FaultyBackend::allocate_staging(std::size_t bytes) {
  count();
  return FakeBackend::allocate_staging(bytes);
}

void FaultyBackend::send(void* to, const void* from_staging, std::size_t bytes) {
  count();
  FakeBackend::send(to, from_staging, bytes);
  carried(to);
}

void FaultyBackend::receive(void* to_staging, const void* from, std::size_t bytes) {
  count();
  FakeBackend::receive(to_staging, from, bytes);
  carried(to_staging);
}

std::unique_ptr<PendingChecksums> FaultyBackend::checksums(std::span<const ByteRange> ranges) {
  count();
  return FakeBackend::checksums(ranges);
}

std::unique_ptr<Event> FaultyBackend::record() {
  count();
  return FakeBackend::record();
}

}  // namespace tandem::testing
