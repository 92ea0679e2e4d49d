#include "graph/session/generate.hpp"

#include <algorithm>
#include <numeric>

#include "core/error.hpp"
#include "core/float_environment.hpp"
#include "core/numerics64.hpp"
#include "core/stopwatch.hpp"

namespace tandem {
namespace {

void check_prompt(const Session& session, SequenceId sequence, std::span<const TokenId> prompt) {
  if (prompt.empty()) fail(ErrorCode::invalid_argument, "the prompt is empty: expected at least one token");
  const std::int64_t room = session.context_tokens() - session.tokens(sequence);
  if (static_cast<std::int64_t>(prompt.size()) > room) {
    fail(ErrorCode::invalid_argument,
         "the prompt has {} tokens, the context has room for {}; ask for a larger context", prompt.size(),
         room);
  }
}

/// Session::feed for the last token's logits, with the steps announced.
std::vector<float> feed(Session& session, SequenceId sequence, std::span<const TokenId> tokens,
                        const GenerateOptions& options, const std::function<bool()>& interrupted) {
  if (!options.before_step) return session.feed(sequence, tokens, Outputs::last, interrupted);
  const auto limit = static_cast<std::size_t>(session.scheduler().limits().tokens);
  std::vector<float> logits;
  for (std::size_t begin = 0; begin < tokens.size(); begin += limit) {
    const std::span<const TokenId> chunk = tokens.subspan(begin, std::min(limit, tokens.size() - begin));
    options.before_step(session.state().tokens(sequence), std::ssize(chunk));
    const bool is_last = begin + limit >= tokens.size();
    logits = session.feed(sequence, chunk, is_last ? Outputs::last : Outputs::none, interrupted);
  }
  return logits;
}

/// What the penalties look back on after the prompt; nothing without penalties.
std::vector<TokenId> history_of(const Session& session, SequenceId sequence, std::span<const TokenId> prompt,
                                const SamplingOptions& sampling) {
  const std::int64_t before = session.tokens(sequence);
  const std::int64_t window = penalty_window(sampling, before + std::ssize(prompt));
  if (window == 0) return {};
  std::vector<TokenId> history =
      session.last_tokens(sequence, std::max<std::int64_t>(0, window - std::ssize(prompt)));
  history.insert(history.end(), prompt.begin(), prompt.end());
  return history;
}

/// -log softmax(logits)[target], in double.
double negative_log_likelihood(std::span<const float> logits, TokenId target) {
  return log_sum_exp(logits) - static_cast<double>(logits[static_cast<std::size_t>(target)]);
}

}  // namespace

std::string_view name(StopReason reason) {
  switch (reason) {
    case StopReason::length:
      return "length";
    case StopReason::end_of_text:
      return "end_of_text";
    case StopReason::context:
      return "context";
    case StopReason::stop_string:
      return "stop_string";
    case StopReason::interrupted:
      return "interrupted";
  }
  return "?";
}

Generated generate(Session& session, SequenceId sequence, std::span<const TokenId> prompt,
                   const GenerateOptions& options) {
  const FloatEnvironment environment;
  validate(options.sampling);
  check_prompt(session, sequence, prompt);
  std::vector<TokenId> history = history_of(session, sequence, prompt, options.sampling);
  Sampler sampler;
  Generated result;
  const Stopwatch prefill;
  std::vector<float> logits = feed(session, sequence, prompt, options, options.interrupted);
  result.prefill_seconds = prefill.milliseconds() / 1000;
  const Stopwatch decode;
  while (static_cast<std::int64_t>(result.ids.size()) < options.max_new_tokens) {
    if (options.interrupted && options.interrupted()) {
      result.reason = StopReason::interrupted;
      break;
    }
    const std::int64_t position = session.tokens(sequence);
    const TokenId id = sampler.choose(logits, options.sampling, position, history).id;
    if (std::find(options.stop_ids.begin(), options.stop_ids.end(), id) != options.stop_ids.end()) {
      result.reason = StopReason::end_of_text;
      break;
    }
    result.ids.push_back(id);
    if (!history.empty()) history.push_back(id);
    if (options.on_token) options.on_token(id);
    if (options.stopped && options.stopped()) {
      result.reason = StopReason::stop_string;
      break;
    }
    if (static_cast<std::int64_t>(result.ids.size()) == options.max_new_tokens) break;
    if (position == session.context_tokens()) {
      result.reason = StopReason::context;
      break;
    }
    logits = feed(session, sequence, std::span(&id, 1), options, {});
    ++result.decode_steps;
  }
  result.decode_seconds = decode.milliseconds() / 1000;
  return result;
}

double Score::mean() const {
  const FloatEnvironment environment;
  return std::accumulate(nll.begin(), nll.end(), 0.0) / static_cast<double>(nll.size());
}
double Score::perplexity() const {
  const FloatEnvironment environment;
  return exp64(mean());
}

Score score(Session& session, std::span<const TokenId> ids, const std::function<void(std::int64_t)>& progress,
            const std::function<bool()>& interrupted) {
  const FloatEnvironment environment;
  if (ids.size() < 2)
    fail(ErrorCode::invalid_argument, "score: expected at least two tokens, got {}", ids.size());
  const ScopedSequence sequence(session);
  const auto vocab = static_cast<std::size_t>(session.vocab_size());
  const StepLimits& limits = session.scheduler().limits();
  const auto chunk = static_cast<std::size_t>(std::min(limits.tokens, limits.outputs));
  const std::span<const TokenId> given = ids.first(ids.size() - 1);
  Score result;
  for (std::size_t begin = 0; begin < given.size(); begin += chunk) {
    if (interrupted && interrupted())
      fail(ErrorCode::interrupted, "interrupted after {} of {} tokens", begin, given.size());
    const std::size_t count = std::min(chunk, given.size() - begin);
    const std::vector<float> logits = session.feed(sequence.id(), given.subspan(begin, count), Outputs::all);
    for (std::size_t i = 0; i < count; ++i) {
      const std::span<const float> row = std::span(logits).subspan(i * vocab, vocab);
      require_numbers(row);
      result.nll.push_back(negative_log_likelihood(row, ids[begin + i + 1]));
    }
    if (progress) progress(static_cast<std::int64_t>(begin + count));
  }
  return result;
}

}  // namespace tandem
