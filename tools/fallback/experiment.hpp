#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/token.hpp"
#include "graph/session/session.hpp"
#include "state/layer_state.hpp"
#include "tools/fallback/difference.hpp"
#include "tools/fallback/miss_plan.hpp"

namespace tandem::tools {

/// A text that a model continues while weights go missing.
struct FallbackSetup {
  std::vector<TokenId> prompt;  ///< at least one
  std::int64_t new_tokens = 1;  ///< chosen greedily after it, at least one; the last is not fed
  std::vector<PlannedMiss> misses;

  std::int64_t fed() const { return std::ssize(prompt) + new_tokens - 1; }
};

/// Whoever waits or listens. All may be left out.
struct FallbackWatch {
  std::function<bool()> interrupted;  ///< looked at before every step; true ends in Error(interrupted)
  std::function<void(std::int64_t done)> progress;  ///< steps done, of all runs
  std::function<void(SequenceId sequence, std::string_view what)> run_begins;
};

/// Nothing missed: what the others are compared with.
struct Undisturbed {
  std::vector<TokenId> ids;                ///< prompt and continuation
  std::vector<std::vector<float>> logits;  ///< after each token that was fed
  std::vector<LayerState> states;          ///< by layer, at the end
  double ms_per_token = 0;                 ///< median
};

/// One policy, twice: fed the undisturbed run's tokens, so that every token's logits can be compared, and fed
/// what it chooses itself.
struct PolicyResult {
  MissPolicy policy = MissPolicy::refuse;
  std::optional<std::int64_t> refused_at;  ///< the token whose step was refused; nothing comes after it
  std::string refusal;
  std::vector<LogitDifference> tokens;  ///< by token that was fed
  std::vector<std::vector<int>> where;  ///< by token and layer: the backend that had its state
  std::int64_t layers_different = 0;    ///< of the states at the end
  std::int64_t tokens_in_state = 0;     ///< at the end
  std::int64_t tokens_equal = 0;        ///< of the new ones it chose, before the first that is another
  bool marked_unsafe = false;
  std::vector<ResidencyEvent> events;
  std::optional<double> ms_before, ms_after;  ///< a token, median, before and from the first miss on

  LogitDifference total() const;  ///< elements and different added up, the others' maximum
  double mean_kl() const;  ///< of the tokens from the first difference in plan on; 0 when there is none
  std::int64_t first_miss = 0;
  std::int64_t event_bytes() const;
  double event_ms() const;
};

/// Policies that must leave no trace.
bool is_safe(MissPolicy policy);

/// Whether anything shows that must not: a bit of logits or states, a token, a token that the state has not
/// taken or has taken twice. Of the unsafe policy nothing must not show.
bool breaks_promise(const PolicyResult& result, const FallbackSetup& setup);

/// Runs one after the other in a session, which is afterwards as before. REQUIRES: room for two sequences of
/// setup.fed() tokens. Throws what the session throws, but for a refusal under `refuse`; weights are then
/// where the last miss left them.
class FallbackExperiment {
 public:
  /// Throws as MissPlanter.
  FallbackExperiment(Session& session, FallbackSetup setup, FallbackWatch watch);

  Undisturbed run_undisturbed();
  PolicyResult run(MissPolicy policy, const Undisturbed& undisturbed);

 private:
  void look() const;
  std::vector<float> feed(SequenceId sequence, TokenId id);
  void compare_tokens(MissPolicy policy, const Undisturbed& undisturbed, PolicyResult& result);
  void compare_choices(MissPolicy policy, const Undisturbed& undisturbed, PolicyResult& result);
  void compare_states(SequenceId sequence, const Undisturbed& undisturbed, PolicyResult& result) const;

  Session& session_;
  FallbackSetup setup_;
  FallbackWatch watch_;
  std::int64_t steps_ = 0;
};

}  // namespace tandem::tools
