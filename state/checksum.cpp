#include "state/checksum.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace tandem {

std::string to_string(const Checksum& checksum) {
  return fmt::format("{:016x}{:016x}", checksum.high, checksum.low);
}

Checksummer::Checksummer() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void Checksummer::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

Checksum Checksummer::result() const {
  const XXH128_hash_t digest = XXH3_128bits_digest(state_.get());
  return {.high = digest.high64, .low = digest.low64};
}

void Checksummer::Release::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Checksum checksum(std::span<const std::byte> bytes) {
  Checksummer sum;
  sum.add(bytes);
  return sum.result();
}

}  // namespace tandem
