#pragma once

#include "graph/run/scheduler.hpp"
#include "state/state_manager.hpp"

namespace tandem {

/// Feeds the tokens of a sequence that `into` does not have yet to `into`, so that it comes to the same state
/// and, from where it was on, to the same versions: steps end where the kept versions do. REQUIRES: what
/// `into` remembers is a beginning of the sequence. Throws Error(not_found) when not all of the sequence's
/// tokens went through the scheduler, and what its steps throw; `into` may have taken some by then. `lock` as
/// in Scheduler::step.
void replay_tokens(Scheduler& scheduler, const StateManager& state, SequenceId sequence, SequenceId into,
                   OwnedLock* lock);

}  // namespace tandem
