#include "graph/continuity/replay.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tandem {

void replay_tokens(Scheduler& scheduler, const StateManager& state, SequenceId sequence, SequenceId into,
                   OwnedLock* lock) {
  std::int64_t done = state.tokens(into);
  if (done == state.tokens(sequence)) return;
  const auto tokens = scheduler.history().of(sequence, state.tokens(sequence));
  if (!tokens) {
    fail(ErrorCode::not_found,
         "sequence {} cannot be replayed: not all of its {} tokens went through this session; fork with "
         "Session::fork",
         to_string(sequence), state.tokens(sequence));
  }
  const std::vector<TokenId> all(tokens->begin(), tokens->end());  // the history grows meanwhile
  for (const VersionInfo& version : state.versions(sequence)) {
    while (done < version.tokens) {
      const std::int64_t count = std::min(scheduler.limits().tokens, version.tokens - done);
      const auto chunk =
          std::span(all).subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count));
      const SequenceTokens step[] = {{into, chunk, Outputs::none}};
      scheduler.step(step, {}, {}, lock);
      done += count;
    }
  }
}

}  // namespace tandem
