#include "core/checksum.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "core/error.hpp"

namespace tandem {
namespace {

PieceDigest canonical(const XXH128_hash_t& hash) {
  XXH128_canonical_t form;
  XXH128_canonicalFromHash(&form, hash);
  PieceDigest digest;
  static_assert(sizeof form.digest == sizeof digest);
  std::memcpy(digest.data(), form.digest, sizeof digest);
  return digest;
}

}  // namespace

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
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.high = hash.high64, .low = hash.low64};
}

PieceDigest piece_digest(std::span<const std::byte> piece) {
  return canonical(XXH3_128bits(piece.data(), piece.size()));
}

Checksum join_pieces(std::span<const PieceDigest> pieces) { return checksum(std::as_bytes(pieces)); }

Checksum block_checksum(std::span<const std::byte> block) {
  std::vector<PieceDigest> pieces;
  for (std::size_t begin = 0; begin < block.size(); begin += kChecksumPieceBytes) {
    pieces.push_back(piece_digest(block.subspan(begin, std::min(kChecksumPieceBytes, block.size() - begin))));
  }
  return join_pieces(pieces);
}

Checksum join_checksums(std::span<const Checksum> blocks) {
  std::vector<PieceDigest> digests;
  for (const Checksum& block : blocks)
    digests.push_back(canonical({.low64 = block.low, .high64 = block.high}));
  return join_pieces(digests);
}

void validate(std::span<const ByteRange> ranges) {
  for (const ByteRange& range : ranges) {
    if (reinterpret_cast<std::uintptr_t>(range.data) % kRangeAlignment == 0) continue;
    fail(ErrorCode::invalid_argument,
         "checksum of {} bytes at {}: expected an address that is a multiple of {}", range.bytes,
         fmt::ptr(range.data), kRangeAlignment);
  }
}

}  // namespace tandem
