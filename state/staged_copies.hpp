#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "core/backend.hpp"
#include "state/block_copy.hpp"

namespace tandem {

/// Copies blocks from backend to backend through two pieces of staging memory: while one is being sent to the
/// target, the next blocks are received into the other. The staging memory comes from a device where there is
/// one, as that can pin it; it lives as long as this.
///
/// Not thread-safe. The backends outlive it.
class StagedCopies {
 public:
  /// Allocates nothing yet.
  StagedCopies() = default;
  StagedCopies(const StagedCopies&) = delete;
  StagedCopies& operator=(const StagedCopies&) = delete;
  /// Waits for what is under way.
  ~StagedCopies() = default;

  /// Copies all blocks and waits until they have arrived. Throws what the backends throw; then some targets
  /// have been written and the sources have not.
  void run(std::span<const BlockCopy> copies);

 private:
  struct Staging {
    Buffer memory;
    std::span<const BlockCopy> batch;  ///< that is in it
    std::unique_ptr<Event> arrived;    ///< in the staging memory
    std::unique_ptr<Event> left;       ///< for the target
  };

  void allocate(std::span<const BlockCopy> copies);
  std::span<const BlockCopy> next_batch(std::span<const BlockCopy> rest) const;
  void receive(Staging& staging, std::span<const BlockCopy> batch);
  void send(Staging& staging);

  std::array<Staging, 2> staging_;
  BusyBackends busy_;  ///< after the staging memory, which they may still use
};

}  // namespace tandem
