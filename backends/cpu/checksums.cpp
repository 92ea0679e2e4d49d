#include "backends/cpu/checksums.hpp"

#include <algorithm>
#include <cstdint>

namespace tandem::cpu {
namespace {

/// 64 KiB take longer than waking a thread.
constexpr std::int64_t kGrainPieces = 4;

/// The pieces of several ranges as one list, so that threads share them evenly.
class Pieces {
 public:
  explicit Pieces(std::span<const ByteRange> ranges) : ranges_(ranges) {
    for (const ByteRange& range : ranges) first_.push_back(first_.back() + checksum_pieces(range.bytes));
    digests_.resize(first_.back());
  }

  std::int64_t count() const { return static_cast<std::int64_t>(digests_.size()); }

  void digest(std::int64_t begin, std::int64_t end) {
    auto piece = static_cast<std::size_t>(begin);
    // The last range that begins here or before: an empty one has no pieces.
    auto range =
        static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), piece) - first_.begin() - 1);
    for (; piece < static_cast<std::size_t>(end); ++piece) {
      while (piece >= first_[range + 1]) ++range;
      const std::size_t offset = (piece - first_[range]) * kChecksumPieceBytes;
      digests_[piece] = piece_digest({static_cast<const std::byte*>(ranges_[range].data) + offset,
                                      std::min(kChecksumPieceBytes, ranges_[range].bytes - offset)});
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

std::vector<Checksum> checksums(std::span<const ByteRange> ranges, Threads& threads) {
  validate(ranges);
  Pieces pieces(ranges);
  threads.parallel_for(pieces.count(), kGrainPieces,
                       [&](std::int64_t begin, std::int64_t end) { pieces.digest(begin, end); });
  return pieces.joined();
}

}  // namespace tandem::cpu
