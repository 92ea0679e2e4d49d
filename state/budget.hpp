#pragma once

#include <cstdint>

#include "state/geometry.hpp"

namespace tandem {

/// What a StateManager has room for, fixed when it is made.
struct StateBudget {
  std::int64_t sequences = 1;       ///< open at a time, forks included
  std::int64_t context_tokens = 0;  ///< of each sequence
  std::int64_t kept_versions = 1;   ///< of each sequence, the newest included: 1 allows no rollback
  std::int64_t step_versions = 1;   ///< that one step may write, whether they are kept or not
  bool poison = false;  ///< for tests: what is free reads as NaN (block_pool.hpp); takes no memory
  bool verify = false;  ///< what is written when states are made room for, and imported, is read again
};

/// How many layers of one sequence may have their state on a backend.
struct LayerCapacity {
  std::int64_t recurrent = 0;
  std::int64_t kv = 0;
  /// Sequences more than the budget's that there is room for, to rebuild one beside the one that it replaces.
  std::int64_t spare = 0;
};

/// What that takes on one backend.
struct PoolSizes {
  std::int64_t slots = 0;  ///< the zero slot included
  std::int64_t pages = 0;  ///< for all layers together
  std::int64_t bytes = 0;  ///< of both
};

/// The rule, per backend:
///
///     slots = 1 + recurrent layers * sequences * (kept_versions + step_versions)
///     pages =     kv layers        * sequences * ceil(context_tokens / page_tokens)
///
/// where the backend's spare sequences count as sequences, and no slots where no recurrent layer may live.
/// The one slot is the zero slot, step_versions are those that a step is writing while the kept ones are
/// still there. Copy-on-write needs no pages of its own: a shared page stands in at least two sequences'
/// lists and is stored once, and each list was counted in full, so the copy takes the place that sharing had
/// saved. Hence a sequence that was admitted can always take its next step, up to the context: the pools
/// cannot run dry.
///
/// Throws Error(invalid_argument) for a geometry, capacity or budget without meaning, or sizes past 63 bits.
PoolSizes pool_sizes(const StateGeometry& geometry, const LayerCapacity& capacity, const StateBudget& budget);

}  // namespace tandem
