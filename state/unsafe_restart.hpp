#pragma once

#include <vector>

#include "state/state_manager.hpp"

namespace tandem {

/// For experiments: what happens when a stateful layer goes on elsewhere without its state. The layers whose
/// home changes get a zero state there, in every kept version: zero slots; pages full of zeros. The old
/// state is given back, and the sequence is marked for good (StateManager::unsafe); so are its forks.
///
/// `homes` has one backend for each layer. Throws as StateManager::open for the homes, as its verbs for the
/// sequence, and what Backend::upload throws; then nothing has changed. Not thread-safe.
void unsafe_restart(StateManager& manager, SequenceId id, const std::vector<int>& homes);

}  // namespace tandem
