#include <vector>

#include "backends/cuda/kernels/common.cuh"
#include "core/xxh3.hpp"

namespace tandem::cuda {
namespace {

using xxh3::Pair;

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;
/// Lane l has pair l mod 4 of the stripes l / 4 and l / 4 + 8 of a block, so that a warp loads 512 bytes at
/// once.
constexpr int kRows = kWarp / xxh3::kPairs;
constexpr int kLoads = static_cast<int>(xxh3::kBlockStripes) / kRows;
/// Blocks whose bytes are asked for before the first is needed.
constexpr int kAhead = 4;

/// A range, and the number of its first piece among all of them.
struct Pieces {
  const unsigned char* data;
  std::uint64_t bytes;
  std::int64_t first;
};

/// A digest in its canonical form.
struct Canonical {
  std::uint64_t high, low;
};
static_assert(sizeof(Canonical) == sizeof(PieceDigest));

__device__ __forceinline__ std::uint64_t shuffled_sum(std::uint64_t x, int distance) {
  return x + __shfl_xor_sync(kAllLanes, static_cast<unsigned long long>(x), distance);
}

/// Over the lanes that have the same pair.
__device__ __forceinline__ Pair sum_of_rows(Pair sum) {
#pragma unroll
  for (int distance = xxh3::kPairs; distance < kWarp; distance *= 2)
    sum = {shuffled_sum(sum.first, distance), shuffled_sum(sum.second, distance)};
  return sum;
}

/// Over the pairs.
__device__ __forceinline__ std::uint64_t sum_of_pairs(std::uint64_t share) {
  return shuffled_sum(shuffled_sum(share, 1), 2);
}

__device__ __forceinline__ Pair added(Pair a, Pair b) { return {a.first + b.first, a.second + b.second}; }

__device__ __forceinline__ Pair load_pair(const unsigned char* from) {
  const ulonglong2 bytes = __ldcs(reinterpret_cast<const ulonglong2*>(from));
  return {bytes.x, bytes.y};
}

/// xxh3::long_digest by a warp, in every lane: what the stripes of a block add is summed over the lanes, and
/// only the sums are in a chain from block to block. REQUIRES: data aligned to 16 bytes, more than
/// kShortBytes.
__device__ xxh3::Digest warp_long_digest(const unsigned char* data, std::size_t bytes) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, pair = lane % xxh3::kPairs,
            row = lane / xxh3::kPairs;
  const unsigned char* own = data + row * xxh3::kStripeBytes + xxh3::pair_offset(pair);
  Pair keys[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i)
    keys[i] = xxh3::stripe_key(static_cast<std::size_t>(row + i * kRows), pair);
  const Pair between = xxh3::scramble_key(pair);
  Pair sum = xxh3::initial_pair(pair);

  const auto blocks = static_cast<int>(xxh3::full_blocks(bytes));
  for (int first = 0; first < blocks; first += kAhead) {
    Pair input[kAhead][kLoads];
#pragma unroll
    for (int b = 0; b < kAhead; ++b) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        if (first + b < blocks)
          input[b][i] = load_pair(own + (first + b) * xxh3::kBlockBytes + i * kRows * xxh3::kStripeBytes);
      }
    }
#pragma unroll
    for (int b = 0; b < kAhead; ++b) {
      if (first + b >= blocks) break;
      Pair block{0, 0};
#pragma unroll
      for (int i = 0; i < kLoads; ++i) block = xxh3::accumulate(block, input[b][i], keys[i]);
      sum = xxh3::scramble(added(sum, sum_of_rows(block)), between);
    }
  }

  const int stripes = static_cast<int>(xxh3::rest_stripes(bytes));
  Pair rest{0, 0};
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    if (row + i * kRows < stripes) {
      rest = xxh3::accumulate(
          rest, load_pair(own + blocks * xxh3::kBlockBytes + i * kRows * xxh3::kStripeBytes), keys[i]);
    }
  }
  sum = added(sum, sum_of_rows(rest));
  // The last stripe may begin anywhere. Every row has all of it.
  const unsigned char* last = data + bytes - xxh3::kStripeBytes + xxh3::pair_offset(pair);
  sum = xxh3::accumulate(sum, xxh3::read_pair(last), xxh3::last_stripe_key(pair));
  return xxh3::finish(sum_of_pairs(xxh3::high_share(sum, pair)), sum_of_pairs(xxh3::low_share(sum, pair)),
                      bytes);
}

__device__ xxh3::Digest warp_digest(const unsigned char* data, std::size_t bytes) {
  return bytes > xxh3::kShortBytes ? warp_long_digest(data, bytes) : xxh3::short_digest(data, bytes);
}

__device__ __forceinline__ std::int64_t warp_of_grid() {
  return static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
}

/// A warp a piece.
__global__ void __launch_bounds__(kThreads)
    digest_pieces(const Pieces* ranges, int count, std::int64_t pieces, Canonical* digests) {
  wait_for_inputs();
  const std::int64_t piece = warp_of_grid();
  if (piece >= pieces) return;
  // The last range that begins at this piece or before.
  int range = 0;
  for (int end = count; end - range > 1;) {
    const int middle = range + (end - range) / 2;
    (ranges[middle].first <= piece ? range : end) = middle;
  }
  const std::uint64_t offset = static_cast<std::uint64_t>(piece - ranges[range].first) * kChecksumPieceBytes;
  const std::uint64_t left = ranges[range].bytes - offset;
  const xxh3::Digest digest =
      warp_digest(ranges[range].data + offset, left < kChecksumPieceBytes ? left : kChecksumPieceBytes);
  if (threadIdx.x % kWarp == 0)
    digests[piece] = {xxh3::swap_bytes(digest.high), xxh3::swap_bytes(digest.low)};
}

/// A warp a range.
__global__ void __launch_bounds__(kThreads) join_ranges(const Pieces* ranges, int count, std::int64_t pieces,
                                                        const Canonical* digests, Checksum* results) {
  wait_for_inputs();
  const std::int64_t range = warp_of_grid();
  if (range >= count) return;
  const std::int64_t first = ranges[range].first, end = range + 1 < count ? ranges[range + 1].first : pieces;
  const xxh3::Digest digest = warp_digest(reinterpret_cast<const unsigned char*>(digests + first),
                                          static_cast<std::size_t>(end - first) * sizeof(Canonical));
  if (threadIdx.x % kWarp == 0) {
    results[range].high = digest.high;
    results[range].low = digest.low;
  }
}

}  // namespace

cudaError_t checksums(std::span<const ByteRange> ranges, const Launch& where, const Checksum** results) {
  std::vector<Pieces> list;
  std::int64_t pieces = 0;
  for (const ByteRange& range : ranges) {
    list.push_back({static_cast<const unsigned char*>(range.data), range.bytes, pieces});
    pieces += static_cast<std::int64_t>(checksum_pieces(range.bytes));
  }
  const void* on_device = nullptr;
  void* scratch = nullptr;
  const std::size_t digest_bytes = static_cast<std::size_t>(pieces) * sizeof(Canonical);
  cudaError_t status = where.arguments->push(list.data(), list.size() * sizeof(Pieces), &on_device);
  if (status == cudaSuccess)
    status = where.arguments->scratch(digest_bytes + ranges.size() * sizeof(Checksum), &scratch);
  if (status != cudaSuccess) return status;
  const auto* device_list = static_cast<const Pieces*>(on_device);
  auto* digests = static_cast<Canonical*>(scratch);
  auto* joined = reinterpret_cast<Checksum*>(digests + pieces);
  *results = joined;
  const int count = static_cast<int>(ranges.size());
  status = launch(where, digest_pieces, ceil_div(pieces, kWarps), kThreads, 0, device_list, count, pieces,
                  digests);
  if (status != cudaSuccess) return status;
  return launch(where, join_ranges, ceil_div(count, kWarps), kThreads, 0, device_list, count, pieces, digests,
                joined);
}

}  // namespace tandem::cuda
