#include "state/staged_copies.hpp"

#include <algorithm>

#include "state/geometry.hpp"

namespace tandem {
namespace {

/// Pages are small, and an event for each would cost more than the copy.
constexpr std::size_t kStagingBytes = std::size_t{4} << 20;

std::size_t staged_bytes(std::size_t bytes) {
  constexpr auto kStep = static_cast<std::size_t>(kStateAlignment);
  return (bytes + kStep - 1) / kStep * kStep;
}

}  // namespace

void StagedCopies::allocate(std::span<const BlockCopy> copies) {
  std::size_t bytes = kStagingBytes, all = 0;
  for (const BlockCopy& copy : copies) {
    bytes = std::max(bytes, staged_bytes(copy.bytes));
    all += staged_bytes(copy.bytes);
  }
  std::vector<Backend*> backends;
  for (const BlockCopy& copy : copies) backends.insert(backends.end(), {copy.from, copy.to});
  for (Staging& staging : staging_) {
    staging.memory = staging_owner(backends).allocate_staging(std::min(bytes, all));
  }
}

std::span<const BlockCopy> StagedCopies::next_batch(std::span<const BlockCopy> rest) const {
  std::size_t count = 0, bytes = 0;
  for (; count < rest.size(); ++count) {
    const BlockCopy& copy = rest[count];
    if (copy.from != rest.front().from || copy.to != rest.front().to) break;
    bytes += staged_bytes(copy.bytes);
    if (bytes > staging_.front().memory.bytes()) break;
  }
  return rest.first(count);
}

void StagedCopies::receive(Staging& staging, std::span<const BlockCopy> batch) {
  if (staging.left) staging.left->wait();
  staging.batch = batch;
  std::size_t offset = 0;
  for (const BlockCopy& copy : batch) {
    copy.from->receive(static_cast<std::byte*>(staging.memory.data()) + offset, copy.source, copy.bytes);
    offset += staged_bytes(copy.bytes);
  }
  staging.arrived = batch.front().from->record();
}

void StagedCopies::send(Staging& staging) {
  staging.arrived->wait();
  std::size_t offset = 0;
  for (const BlockCopy& copy : staging.batch) {
    copy.to->send(copy.target, static_cast<const std::byte*>(staging.memory.data()) + offset, copy.bytes);
    offset += staged_bytes(copy.bytes);
  }
  staging.left = staging.batch.front().to->record();
}

void StagedCopies::run(std::span<const BlockCopy> copies) {
  if (copies.empty()) return;
  allocate(copies);
  busy_.add(copies);
  Staging* waiting = nullptr;
  std::size_t turn = 0;
  for (std::size_t done = 0; done < copies.size(); ++turn) {
    Staging& staging = staging_[turn % staging_.size()];
    const std::span<const BlockCopy> batch = next_batch(copies.subspan(done));
    receive(staging, batch);
    if (waiting != nullptr) send(*waiting);
    waiting = &staging;
    done += batch.size();
  }
  send(*waiting);
  for (Staging& staging : staging_) {
    if (staging.left) staging.left->wait();
  }
  busy_.clear();
}

}  // namespace tandem
