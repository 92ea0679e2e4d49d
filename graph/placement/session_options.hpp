#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/faults.hpp"
#include "graph/placement/load_watch.hpp"
#include "graph/placement/workspace.hpp"
#include "state/sequence.hpp"

namespace tandem {

struct SessionOptions {
  /// graph/placement/placement.hpp; or "auto": the most layers that fit on the first device, from the last
  /// one down, and everything on the CPU when there is no device.
  std::string place = "cpu";
  std::int64_t context_tokens = 0;  ///< of each sequence; 0: 4096 or the model's own limit if that is less
  std::int64_t sequences = 2;       ///< open at a time, forks included: one text and a fork of it
  std::int64_t kept_versions = 1;   ///< of each sequence, for rollback
  std::int64_t step_versions = 1;   ///< that one step may keep (SequenceTokens::versions, verify)
  StepLimits limits = {};           ///< longer inputs go through in chunks
  /// Unset: per_layer when the plan has state on several backends or `homes` names several, else uniform.
  std::optional<Residency> residency = std::nullopt;
  /// Backends, by name, on which any layer's state may come to live, whether the placement uses them or not:
  /// each has room for the state of all layers and for their values, and weights may be loaded there. Empty:
  /// states stay where the plan has them.
  std::vector<std::string> homes = {};
  /// After so many tokens of a sequence its newest version is copied to the host
  /// (graph/continuity/mirror.hpp), so that it can go on when a device is lost
  /// (graph/continuity/recovery.hpp). 0: never. A backend in host memory becomes a home if none of `homes` is
  /// one.
  std::int64_t mirror_every = 0;
  bool poison = false;  ///< for tests: state that is free reads as NaN (state/block_pool.hpp)
  /// All that steps, mirrors and restoring move is read a second time and compared (Error(mismatch)).
  bool verify_transfers = false;
  std::shared_ptr<Faults> faults = nullptr;  ///< told the time, asked for misses; null: there are none
  LoadWatch watch = {};
};

}  // namespace tandem
