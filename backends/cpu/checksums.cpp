#include "backends/cpu/checksums.hpp"

#include <algorithm>
#include <cstdint>

namespace tandem::cpu {
namespace {

/// 64 KiB take longer than waking a thread.
constexpr std::int64_t kGrainPieces = 4;
/// Eight threads outrun the link to a device. More of them take memory bandwidth from the copies that these
/// checksums run beside (README.md).
constexpr std::int64_t kMostChunks = 8;

/// The pieces of several ranges as one list, so that threads share them evenly.
class Pieces {
 public:
  explicit Pieces(std::span<const ByteRange> ranges) : ranges_(ranges) {
    for (const ByteRange& range : ranges) first_.push_back(first_.back() + checksum_pieces(range.bytes));
    digests_.resize(first_.back());
  }

  std::int64_t count() const { return static_cast<std::int64_t>(digests_.size()); }

  void digest(DigestKernel kernel, std::int64_t begin, std::int64_t end) {
    auto piece = static_cast<std::size_t>(begin);
    // The last range that begins here or before: an empty one has no pieces.
    auto range =
        static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), piece) - first_.begin() - 1);
    for (; piece < static_cast<std::size_t>(end); ++piece) {
      while (piece >= first_[range + 1]) ++range;
      const std::size_t offset = (piece - first_[range]) * kChecksumPieceBytes;
      kernel(static_cast<const std::byte*>(ranges_[range].data) + offset,
             std::min(kChecksumPieceBytes, ranges_[range].bytes - offset),
             reinterpret_cast<unsigned char*>(digests_[piece].data()));
    }
  }

  std::vector<Checksum> joined() const {
    std::vector<Checksum> checksums;
    for (std::size_t i = 0; i < ranges_.size(); ++i)
      checksums.push_back(join_pieces(std::span(digests_).subspan(first_[i], first_[i + 1] - first_[i])));
    return checksums;
  }

 private:
  std::span<const ByteRange> ranges_;
  std::vector<std::size_t> first_{0};  ///< piece of each range, and of the end
  std::vector<PieceDigest> digests_;
};

}  // namespace

std::vector<Checksum> checksums(std::span<const ByteRange> ranges, DigestKernel digest, Threads& threads) {
  validate(ranges);
  Pieces pieces(ranges);
  const std::int64_t grain = std::max(kGrainPieces, (pieces.count() + kMostChunks - 1) / kMostChunks);
  threads.parallel_for(pieces.count(), grain,
                       [&](std::int64_t begin, std::int64_t end) { pieces.digest(digest, begin, end); });
  return pieces.joined();
}

}  // namespace tandem::cpu
