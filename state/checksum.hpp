#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct XXH3_state_s;

namespace tandem {

/// 128 bits of XXH3: tells damage and difference, and is no proof against whoever wants to deceive.
struct Checksum {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  bool operator==(const Checksum&) const = default;
};

/// 32 hexadecimal digits, the canonical form of xxHash.
std::string to_string(const Checksum& checksum);

/// The checksum of bytes that come in pieces; how they are cut makes no difference. Move-only. Not
/// thread-safe.
class Checksummer {
 public:
  Checksummer();

  void add(std::span<const std::byte> bytes);
  /// Of all bytes so far.
  Checksum result() const;

 private:
  struct Release {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Release> state_;
};

Checksum checksum(std::span<const std::byte> bytes);

}  // namespace tandem
