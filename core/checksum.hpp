#pragma once

#include <array>
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

/// A checksum that can be computed in parts at once, by threads or by a device, with the same bits
/// everywhere. A block is cut into pieces of kChecksumPieceBytes, the last one shorter where they do not come
/// out even, and its checksum is the XXH3 of the XXH3 of its pieces, each in its canonical form: 16 bytes,
/// the highest first. An empty block has no pieces. Not the XXH3 of the block's bytes, and for one piece not
/// that piece's either.
inline constexpr std::size_t kChecksumPieceBytes = std::size_t{16} << 10;
using PieceDigest = std::array<std::byte, 16>;

constexpr std::size_t checksum_pieces(std::size_t bytes) {
  return (bytes + kChecksumPieceBytes - 1) / kChecksumPieceBytes;
}
/// REQUIRES: 1 to kChecksumPieceBytes bytes.
PieceDigest piece_digest(std::span<const std::byte> piece);
/// Of a block, from all of its pieces in their order.
Checksum join_pieces(std::span<const PieceDigest> pieces);
Checksum block_checksum(std::span<const std::byte> block);

/// Of several blocks, from theirs in their order: joined as the pieces of one block are.
Checksum join_checksums(std::span<const Checksum> blocks);

/// Bytes in the memory of a backend, beginning at a multiple of kRangeAlignment.
struct ByteRange {
  const void* data = nullptr;
  std::size_t bytes = 0;
};
inline constexpr std::size_t kRangeAlignment = 16;

/// Throws Error(invalid_argument) when a range begins elsewhere.
void validate(std::span<const ByteRange> ranges);

}  // namespace tandem
