#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/owned_mutex.hpp"
#include "state/layer_state.hpp"
#include "state/state_manager.hpp"

namespace tandem {

/// Where some of a sequence's state shall live from now on.
struct Move {
  SequenceId sequence;
  int backend = 0;          ///< index of a backend of the manager
  std::vector<int> layers;  ///< empty: all of them
};

/// A version as it left one backend and arrived on the other: both had this checksum.
struct MovedVersion {
  VersionInfo info;
  /// Of the layer's blocks as they lie, which is the same on all backends: join_checksums of the slot's, or
  /// of the pages', all of them. Not of a LayerState: what pads a slot and fills a page is in it.
  Checksum checksum;

  bool operator==(const MovedVersion&) const = default;
};

struct MovedLayer {
  SequenceId sequence;
  int layer = 0;
  int from = 0;  ///< backends of the manager
  int to = 0;
  std::int64_t bytes = 0;  ///< copied for this layer; what an earlier entry shares with it is counted there
  /// A recurrent layer: every kept version. A kv layer: the newest, as the older ones are its first tokens.
  std::vector<MovedVersion> versions;
};

struct MigrationReport {
  std::vector<MovedLayer> layers;  ///< those that had to move
  std::int64_t bytes = 0;          ///< that went from a backend to another one, once
  double milliseconds = 0;         ///< all of it, checking included
};

/// Moves recurrent, convolution and KV state, in all kept versions, to other backends of the manager. What is
/// there already stays and is not reported. Blocks that the moved sequences share (forks) are moved once and
/// shared there as well; sequences that are not named keep their own.
///
/// All or nothing, for the whole list. Slots and pages on the targets are taken first; a device copies them
/// from and to page-locked host memory by itself, else the bytes go through staging memory; each backend
/// computes the checksums of its side from the memory in which the blocks lie, and they must be equal; then
/// all homes change at once and the sources are given back. On an Error before that, every sequence is where
/// it was, byte for byte, the targets are as free as before, and the message says what was to move and why it
/// did not:
///  - not_found, invalid_argument: as StateManager's verbs (no such sequence, layer, backend; an open step),
///    or a layer is to go to two places
///  - mismatch: a part of a sequence of uniform residency, or bytes that arrived differently
///  - out_of_memory: more layers than the target has room for
///  - what the backends throw
///
/// Not thread-safe, as the manager. `lock` is what guards the manager, if something does: it is let go of
/// while blocks are carried and checked.
MigrationReport migrate(StateManager& manager, std::span<const Move> moves, OwnedLock* lock = nullptr);
MigrationReport migrate(StateManager& manager, const Move& move, OwnedLock* lock = nullptr);

}  // namespace tandem
