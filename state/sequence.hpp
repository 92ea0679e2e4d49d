#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "state/geometry.hpp"
#include "state/layer_pieces.hpp"
#include "state/page_pool.hpp"

namespace tandem {

/// Names a sequence of one StateManager. It goes stale safely: after close() it finds nothing, even when the
/// index is used again. The default names no sequence. Meaningless to another manager.
struct SequenceId {
  std::int64_t index = 0;
  std::int64_t generation = 0;  ///< how many sequences had this index before, and this one

  bool operator==(const SequenceId&) const = default;
};

/// "3.7": index and generation.
std::string to_string(SequenceId id);

/// Where the state of a sequence may be. In both, it moves by an explicit migration only.
enum class Residency : std::uint8_t {
  uniform,    ///< all layers on one backend
  per_layer,  ///< each layer at its own home
};

struct SequenceOptions {
  Residency residency = Residency::uniform;
  std::vector<int> home;  ///< of each layer: index of a backend of the manager
  /// It is to replace another one soon: may take the place that its backends have to spare for that.
  bool rebuild = false;
  bool unsafe =
      false;  ///< carries the mark of unsafe_restart from the start: it is restored from a marked one
};

/// A point that a sequence can return to.
struct VersionInfo {
  std::int64_t number =
      0;  ///< grows with every commit and reset, never used twice in a sequence; forks go on from it
  std::int64_t tokens = 0;

  bool operator==(const VersionInfo&) const = default;
};

/// What the manager holds of a version: the recurrent layers' slots. Pages need no entry, as a version of
/// them is the first `tokens` positions.
struct Version {
  VersionInfo info;
  std::vector<BlockRef> slots;  ///< by layer; empty for a kv layer
};

/// What the manager holds of one layer of a sequence.
struct LayerBlocks {
  std::vector<BlockRef> slots;  ///< by kept version; empty when the layer has nothing in slots
  PageList pages;               ///< empty when it has nothing in pages
};

/// What the manager holds of a sequence; not for use outside state/. Copying one shares all of its blocks.
///
/// Invariants: `versions` is never empty, oldest first, numbers strictly and tokens never decreasing. While
/// no step is open each kv layer has just the pages that the newest version's tokens need. While one is open
/// its slots are referred to by nobody else, nor are the pages from its position on.
struct Sequence {
  SequenceId id;
  Residency residency = Residency::uniform;
  std::vector<int> home;  ///< by layer; a migration of a layer changes this and the refs, nothing else
  std::vector<Version> versions;  ///< the kept ones
  std::vector<PageList> pages;    ///< by layer; empty for a recurrent layer
  std::int64_t next_number = 0;
  bool unsafe = false;        ///< went on without its state once (unsafe_restart.hpp)
  bool spare = false;         ///< is not one of the budget's sequences (SequenceOptions::rebuild)
  std::vector<Version> next;  ///< what the open step writes, oldest first; empty when none is open

  const Version& newest() const { return versions.back(); }
  /// Null when it is not kept.
  const Version* find(std::int64_t number) const;

  /// The first `count` versions that the open step wrote become the newest ones, the others are given back
  /// with the pages of their tokens, and so are the oldest past `kept_versions`. REQUIRES: an open step that
  /// writes so many, at least 1, and room in `versions` for them.
  void commit(std::int64_t count, std::int64_t kept_versions, const StateGeometry& geometry) noexcept;
  /// Gives back the pages past the newest version.
  void truncate_pages(const StateGeometry& geometry) noexcept;
  /// Forgets the open step, if there is one, and every version newer than the first `count`; gives back their
  /// pages.
  void keep_oldest(std::int64_t count, const StateGeometry& geometry) noexcept;

  /// The walk over what a layer holds, whatever that is: calls `other(block, storage)` for every block, the
  /// slots of the kept versions, oldest first, then the pages by position. Returns the blocks that the calls
  /// returned, in the places of those that they were given. Throws what `other` throws.
  LayerBlocks map_blocks(std::size_t layer,
                         const std::function<BlockRef(const BlockRef&, Storage)>& other) const;
  /// The layer's blocks are these from now on, and they are on that backend. REQUIRES: as many as it has.
  void put_blocks(std::size_t layer, int backend, LayerBlocks blocks) noexcept;
};

}  // namespace tandem
