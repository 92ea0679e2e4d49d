#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/backend.hpp"
#include "state/block_copy.hpp"

namespace tandem {

/// Of a block where it came from, and where it arrived.
struct BlockChecksums {
  Checksum source;
  Checksum target;
};

/// Carries blocks between backends and has both sides checked, in one pipeline. All direct copies are queued
/// at once; each backend computes the checksums of its own side: a device after its last copy, so that it
/// delays none, the host of what it sends while that is under way, and of what it receives batch by batch as
/// it arrives.
///
/// Not thread-safe. The backends outlive it.
class BlockTransfer {
 public:
  BlockTransfer() = default;
  BlockTransfer(const BlockTransfer&) = delete;
  BlockTransfer& operator=(const BlockTransfer&) = delete;
  /// Waits for what is under way.
  ~BlockTransfer() = default;

  /// Copies all blocks and waits until they have arrived. Returns the checksums of each block's two sides,
  /// computed from the memory in which they lie, the target's after the copy. Whether they are equal is for
  /// the caller to say. Throws what the backends throw; then some targets have been written and the sources
  /// have not.
  std::vector<BlockChecksums> run(std::span<const BlockCopy> copies);

 private:
  /// Neighbours that go the same way.
  struct Batch {
    std::size_t first = 0;
    std::size_t count = 0;
    std::unique_ptr<Event> arrived;  ///< null when nothing is under way
  };

  std::vector<Batch> start_direct(std::span<const BlockCopy> copies);
  void copy_staged(std::span<const BlockCopy> copies);

  BusyBackends busy_;
};

}  // namespace tandem
