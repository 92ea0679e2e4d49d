#pragma once

#include <functional>
#include <string_view>

#include "graph/session/sampler.hpp"
#include "graph/session/session.hpp"

namespace tandem {

enum class StopReason : std::uint8_t {
  length,       ///< as many tokens as were asked for
  end_of_text,  ///< the model chose one of the stop ids
  context,      ///< the sequence fills its context
  stop_string,  ///< the caller saw what the text shall end before
  interrupted   ///< asked to stop
};
std::string_view name(StopReason reason);

struct GenerateOptions {
  std::int64_t max_new_tokens = 0;
  SamplingOptions sampling;
  std::vector<std::int64_t> stop_ids;
  std::function<void(TokenId)> on_token;  ///< as soon as a token is chosen; not for a stop id
  std::function<bool()> stopped;          ///< looked at after on_token: true ends with stop_string
  std::function<bool()> interrupted;      ///< looked at between steps
  /// Before each step: the sequence's position, and how many tokens the step takes.
  std::function<void(std::int64_t position, std::int64_t tokens)> before_step;
};

struct Generated {
  std::vector<TokenId> ids;  ///< without the stop id
  StopReason reason = StopReason::length;
  double prefill_seconds = 0;
  double decode_seconds = 0;
  std::int64_t decode_steps = 0;  ///< tokens that were fed back, which is what decode_seconds counts
};

/// Feeds the prompt to a sequence and lets it go on. The last chosen token is not fed back.
/// Throws Error(invalid_argument) for an empty prompt or one that does not fit the context, and with
/// penalties as Session::last_tokens, before anything is computed.
Generated generate(Session& session, SequenceId sequence, std::span<const TokenId> prompt,
                   const GenerateOptions& options);

/// How well a model predicts a text.
struct Score {
  std::vector<double> nll;  ///< [n - 1]: of token i + 1 given tokens 0 .. i, in nats

  double mean() const;
  double perplexity() const;
};

/// Scores ids with a fresh sequence, which is closed afterwards. `progress` is told the tokens done.
/// Throws Error(invalid_argument) for fewer than two tokens; Error(interrupted).
Score score(Session& session, std::span<const TokenId> ids,
            const std::function<void(std::int64_t)>& progress = {},
            const std::function<bool()>& interrupted = {});

}  // namespace tandem
