#include "tools/fallback/experiment.hpp"

#include <algorithm>
#include <deque>
#include <optional>

#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "graph/session/sampler.hpp"

namespace tandem::tools {
namespace {

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  const auto half = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), half, values.end());
  return *half;
}

/// The miss that the last step found, if it did.
std::optional<ResidencyEvent> miss_at(const Session& session, SequenceId sequence, std::int64_t position) {
  const std::deque<ResidencyEvent> events = session.events();
  if (events.empty()) return {};
  const ResidencyEvent& last = events.back();
  if (last.what != "miss" || last.sequence != sequence || last.tokens != position) return {};
  return last;
}

}  // namespace

LogitDifference PolicyResult::total() const {
  LogitDifference all;
  for (const LogitDifference& token : tokens) {
    all.elements += token.elements;
    all.different += token.different;
    all.max_rel = std::max(all.max_rel, token.max_rel);
    all.kl = std::max(all.kl, token.kl);
  }
  return all;
}

double PolicyResult::mean_kl() const {
  double sum = 0;
  const auto first = static_cast<std::size_t>(first_miss);
  for (std::size_t t = first; t < tokens.size(); ++t) sum += tokens[t].kl;
  return first < tokens.size() ? sum / static_cast<double>(tokens.size() - first) : 0;
}

std::int64_t PolicyResult::event_bytes() const {
  std::int64_t bytes = 0;
  for (const ResidencyEvent& event : events) bytes += event.bytes;
  return bytes;
}

double PolicyResult::event_ms() const {
  double ms = 0;
  for (const ResidencyEvent& event : events) ms += event.milliseconds;
  return ms;
}

bool is_safe(MissPolicy policy) { return policy != MissPolicy::unsafe_restart; }

bool breaks_promise(const PolicyResult& result, const FallbackSetup& setup) {
  if (!is_safe(result.policy)) return false;
  const std::int64_t fed = result.refused_at.value_or(setup.fed());
  const std::int64_t choices =
      result.refused_at ? std::max<std::int64_t>(0, *result.refused_at - std::ssize(setup.prompt) + 1)
                        : setup.new_tokens;
  return result.total().different > 0 || result.layers_different > 0 || result.tokens_in_state != fed ||
         result.tokens_equal != choices || result.marked_unsafe;
}

FallbackExperiment::FallbackExperiment(Session& session, FallbackSetup setup, FallbackWatch watch)
    : session_(session), setup_(std::move(setup)), watch_(std::move(watch)) {
  const MissPlanter possible(session_, setup_.misses, false);  // or it throws, before anything has run
}

void FallbackExperiment::look() const {
  if (watch_.interrupted && watch_.interrupted())
    fail(ErrorCode::interrupted, "interrupted after {} steps", steps_);
}

std::vector<float> FallbackExperiment::feed(SequenceId sequence, TokenId id) {
  std::vector<float> logits = session_.feed(sequence, std::span(&id, 1), Outputs::last);
  ++steps_;
  if (watch_.progress) watch_.progress(steps_);
  return logits;
}

Undisturbed FallbackExperiment::run_undisturbed() {
  const ScopedSequence run(session_, MissPolicy::refuse);
  if (watch_.run_begins) watch_.run_begins(run.id(), "undisturbed");
  Undisturbed result;
  result.ids = setup_.prompt;
  std::vector<double> times;
  for (std::int64_t t = 0; t < setup_.fed(); ++t) {
    look();
    const Stopwatch clock;
    result.logits.push_back(feed(run.id(), result.ids[static_cast<std::size_t>(t)]));
    times.push_back(clock.milliseconds());
    if (t + 1 == std::ssize(result.ids)) result.ids.push_back(choose_greedily(result.logits.back()));
  }
  for (int layer = 0; layer < static_cast<int>(session_.plan().state_home.size()); ++layer)
    result.states.push_back(export_layer(session_.state(), run.id(), layer));
  result.ms_per_token = median(std::move(times)).value_or(0);
  return result;
}

void FallbackExperiment::compare_states(SequenceId sequence, const Undisturbed& undisturbed,
                                        PolicyResult& result) const {
  result.tokens_in_state = session_.state().tokens(sequence);
  result.marked_unsafe = session_.state().unsafe(sequence);
  if (result.refused_at) return;  // there is no undisturbed state at that token to compare with
  for (std::size_t layer = 0; layer < undisturbed.states.size(); ++layer) {
    const LayerState found = export_layer(session_.state(), sequence, static_cast<int>(layer));
    if (!(found == undisturbed.states[layer])) ++result.layers_different;
  }
}

void FallbackExperiment::compare_tokens(MissPolicy policy, const Undisturbed& undisturbed,
                                        PolicyResult& result) {
  const ScopedSequence run(session_, policy);
  if (watch_.run_begins) watch_.run_begins(run.id(), fmt::format("{}, the undisturbed tokens", name(policy)));
  MissPlanter planter(session_, setup_.misses, policy == MissPolicy::migrate_all);
  std::vector<double> before, after;
  for (std::int64_t t = 0; t < setup_.fed() && !result.refused_at; ++t) {
    look();
    planter.before_step(run.id(), t, 1);
    const auto at = static_cast<std::size_t>(t);
    const Stopwatch clock;
    try {
      const std::vector<float> logits = feed(run.id(), undisturbed.ids[at]);
      double ms = clock.milliseconds();
      result.tokens.push_back(difference_of(undisturbed.logits[at], logits));
      if (const auto miss = miss_at(session_, run.id(), t)) ms -= miss->milliseconds;
      (t < result.first_miss ? before : after).push_back(ms);
      result.where.push_back(session_.state().homes(run.id()));
    } catch (const Error& error) {
      if (policy != MissPolicy::refuse || error.code() != ErrorCode::not_resident) throw;
      result.refused_at = t;
      result.refusal = error.what();
    }
    if (const auto miss = miss_at(session_, run.id(), t)) result.events.push_back(*miss);
  }
  result.ms_before = median(std::move(before));
  result.ms_after = median(std::move(after));
  compare_states(run.id(), undisturbed, result);
}

void FallbackExperiment::compare_choices(MissPolicy policy, const Undisturbed& undisturbed,
                                         PolicyResult& result) {
  const ScopedSequence run(session_, policy);
  if (watch_.run_begins) watch_.run_begins(run.id(), fmt::format("{}, its own tokens", name(policy)));
  MissPlanter planter(session_, setup_.misses, policy == MissPolicy::migrate_all);
  std::vector<TokenId> ids = setup_.prompt;
  const std::int64_t end = result.refused_at.value_or(setup_.fed());
  for (std::int64_t t = 0; t < end; ++t) {
    look();
    planter.before_step(run.id(), t, 1);
    const std::vector<float> logits = feed(run.id(), ids[static_cast<std::size_t>(t)]);
    if (t + 1 < std::ssize(ids)) continue;
    ids.push_back(choose_greedily(logits));
    if (ids.back() != undisturbed.ids[ids.size() - 1]) return;
    ++result.tokens_equal;
  }
}

PolicyResult FallbackExperiment::run(MissPolicy policy, const Undisturbed& undisturbed) {
  PolicyResult result;
  result.policy = policy;
  result.first_miss = setup_.misses.empty() ? setup_.fed() : setup_.misses.front().token;
  restore_weights(session_);
  compare_tokens(policy, undisturbed, result);
  restore_weights(session_);
  compare_choices(policy, undisturbed, result);
  restore_weights(session_);
  return result;
}

}  // namespace tandem::tools
