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

/// A miss and what was done about it; a migration that was asked for; a copy to the host ("mirror"); a
/// backend that does not answer any more ("lost", of no sequence); a sequence that goes on without it
/// ("rebuilt").
struct ResidencyEvent {
  std::string_view what;  ///< "miss", "migration", "mirror", "lost", "rebuilt"
  SequenceId sequence;
  std::vector<int> layers;  ///< that were missed, that moved, or whose state was lost
  std::string from, to;     ///< backends of the first of them; `to` is empty when there was none
  /// The policy's name; "asked" for a migration and a mirror. How a sequence was rebuilt: "mirror" (a copy
  /// and the tokens since), "replay" (all tokens), "versions" (its state was elsewhere, weights were loaded).
  std::string_view decision;
  std::string error;                   ///< why it could not be done; empty: it was
  std::int64_t tokens = 0;             ///< of the sequence at that time
  std::int64_t bytes = 0;              ///< of state that went from one backend to another
  double milliseconds = 0;             ///< that the step was held up
  std::vector<std::int64_t> versions;  ///< numbers of those that were moved, made again or copied
};

}  // namespace tandem
