#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "state/sequence.hpp"

namespace tandem {

/// What happens to a sequence when the weights of a stateful part of a layer (gdn, attention) are not loaded
/// where the layer's state lives. All but the last leave every bit as if nothing had been missed.
enum class MissPolicy : std::uint8_t {
  refuse,       ///< the step is refused with Error(not_resident)
  migrate,      ///< the layers' states move to a backend that has their weights; for per_layer residency
  migrate_all,  ///< the whole sequence moves to a backend that has the weights of all its states
  replay,  ///< the sequence is computed again, from its tokens, where the weights are; needs room for one
           ///< more sequence while it lasts
  unsafe_restart,  ///< for experiments: the layers go on from a zero state where the weights are; WRONG, and
                   ///< the sequence is marked for good (StateManager::unsafe)
};
std::string_view name(MissPolicy policy);

/// A miss and what was done about it, or a migration that was asked for.
struct ResidencyEvent {
  std::string_view what;  ///< "miss", "migration"
  SequenceId sequence;
  std::vector<int> layers;             ///< that were missed, or that moved
  std::string from, to;                ///< backends of the first of them; `to` is empty when there was none
  std::string_view decision;           ///< the policy's name; "asked" for a migration
  std::string error;                   ///< why it could not be done; empty: it was
  std::int64_t tokens = 0;             ///< of the sequence at that time
  std::int64_t bytes = 0;              ///< of state that went from one backend to another
  double milliseconds = 0;             ///< until the step could begin
  std::vector<std::int64_t> versions;  ///< numbers of the kept versions that were moved or made again
};

}  // namespace tandem
