#include "state/block_transfer.hpp"

#include <algorithm>

#include "state/staged_copies.hpp"

namespace tandem {
namespace {

/// Pages are small, and an event for each would cost more than the copy; and threads that share the checksums
/// of a batch are to be woken for more than a few pieces each.
constexpr std::size_t kBatchBytes = std::size_t{6} << 20;

bool on_host(const Backend& backend) { return backend.info().host_memory; }

/// Sides of blocks in one backend's memory, and where their checksums go.
class Side {
 public:
  explicit Side(Backend& backend) : backend_(&backend) {}

  Backend& backend() const { return *backend_; }
  void add(const void* data, std::size_t bytes, Checksum& result) {
    ranges_.push_back({data, bytes});
    results_.push_back(&result);
  }
  void start() { pending_ = backend_->checksums(ranges_); }
  void collect() {
    const std::vector<Checksum> checksums = pending_->wait();
    for (std::size_t i = 0; i < results_.size(); ++i) *results_[i] = checksums[i];
  }

 private:
  Backend* backend_;
  std::vector<ByteRange> ranges_;
  std::vector<Checksum*> results_;
  std::unique_ptr<PendingChecksums> pending_;
};

Side& side_of(std::vector<Side>& sides, Backend& backend) {
  const auto found =
      std::find_if(sides.begin(), sides.end(), [&](const Side& side) { return &side.backend() == &backend; });
  return found != sides.end() ? *found : sides.emplace_back(backend);
}

/// All but what arrives on the host.
std::vector<Side> sides_to_begin_with(std::span<const BlockCopy> copies, std::span<BlockChecksums> results) {
  std::vector<Side> sides;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const BlockCopy& copy = copies[i];
    side_of(sides, *copy.from).add(copy.source, copy.bytes, results[i].source);
    if (!on_host(*copy.to)) side_of(sides, *copy.to).add(copy.target, copy.bytes, results[i].target);
  }
  // Devices only queue theirs.
  std::stable_partition(sides.begin(), sides.end(),
                        [](const Side& side) { return !on_host(side.backend()); });
  return sides;
}

/// What batches consist of.
std::size_t batch_count(std::span<const BlockCopy> copies, std::size_t first) {
  std::size_t count = 0;
  for (std::size_t bytes = 0; first + count < copies.size() && bytes < kBatchBytes; ++count) {
    if (!copies[first + count].goes_like(copies[first])) break;
    bytes += copies[first + count].bytes;
  }
  return count;
}

}  // namespace

/// Host memory is read and written here past the order of its backend's work, which must be over.
std::vector<BlockTransfer::Batch> BlockTransfer::start_direct(std::span<const BlockCopy> copies) {
  std::vector<Batch> batches;
  for (std::size_t first = 0; first < copies.size(); first += batches.back().count) {
    Batch& batch = batches.emplace_back(Batch{first, batch_count(copies, first), nullptr});
    const BlockCopy& one = copies[first];
    if (one.path != Path::direct) continue;
    Backend& host = on_host(*one.from) ? *one.from : *one.to;
    Backend& carrier = on_host(*one.from) ? *one.to : *one.from;
    host.synchronize();
    for (const BlockCopy& copy : copies.subspan(first, batch.count)) {
      on_host(*one.from) ? carrier.send(copy.target, copy.source, copy.bytes)
                         : carrier.receive(copy.target, copy.source, copy.bytes);
    }
    batch.arrived = carrier.record();
  }
  return batches;
}

void BlockTransfer::copy_staged(std::span<const BlockCopy> copies) {
  std::vector<BlockCopy> staged;
  std::copy_if(copies.begin(), copies.end(), std::back_inserter(staged),
               [](const BlockCopy& copy) { return copy.path == Path::staged; });
  StagedCopies().run(staged);
}

std::vector<BlockChecksums> BlockTransfer::run(std::span<const BlockCopy> copies) {
  std::vector<BlockChecksums> results(copies.size());
  busy_.add(copies);
  const std::vector<Batch> batches = start_direct(copies);
  copy_staged(copies);
  std::vector<Side> sides = sides_to_begin_with(copies, results);
  for (Side& side : sides) side.start();
  for (const Batch& batch : batches) {
    if (batch.arrived) batch.arrived->wait();
    Backend& to = *copies[batch.first].to;
    if (!on_host(to)) continue;
    Side arrived(to);
    for (std::size_t i = batch.first; i < batch.first + batch.count; ++i)
      arrived.add(copies[i].target, copies[i].bytes, results[i].target);
    arrived.start();
    arrived.collect();
  }
  for (Side& side : sides) side.collect();
  busy_.clear();
  return results;
}

}  // namespace tandem
