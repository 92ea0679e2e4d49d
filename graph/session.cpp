#include "graph/session.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tandem {

Session::Session(const Context& context, std::shared_ptr<const Model> model, const SessionOptions& options)
    : model_(std::move(model)),
      planned_(plan_session(context, model_->config(), model_->graph(), weight_sizes(*model_), options)) {
  require_fit(planned_);
  const std::vector<Backend*>& backends = planned_.backends;
  state_ = std::make_unique<StateManager>(planned_.geometry, backends,
                                          layer_capacities(planned_.geometry, plan()), planned_.budget);
  residents_ = std::make_unique<Residents>(*model_, backends);
  residents_->load(plan(), options.watch);
  executor_ = std::make_unique<Executor>(*model_, plan(), backends, *residents_, options.limits,
                                         planned_.budget.context_tokens);
  scheduler_ = std::make_unique<Scheduler>(*model_, plan(), *residents_, *state_, *executor_);
  misses_ = std::make_unique<Misses>(plan(), *residents_, *state_, *scheduler_);
}

SequenceId Session::open(MissPolicy policy) {
  const SequenceId sequence = state_->open({planned_.residency, plan().state_home});
  misses_->set_policy(sequence, policy);
  return sequence;
}

SequenceId Session::fork(SequenceId sequence) {
  const SequenceId fork = state_->fork(sequence);
  scheduler_->history().fork(sequence, fork);
  misses_->set_policy(fork, misses_->policy(sequence));
  return fork;
}

void Session::observe(StepObserver* observer) {
  std::unique_ptr<StepRecorder> recorder;
  if (observer != nullptr) {
    recorder = std::make_unique<StepRecorder>(*observer, model_->graph(), planned_.backends, *state_);
  }
  scheduler_->record(recorder.get());
  misses_->record(recorder.get());
  recorder_ = std::move(recorder);
}

std::vector<std::vector<float>> Session::step(std::span<const SequenceTokens> batch, const Probe& probe) {
  for (const SequenceTokens& sequence : batch) misses_->resolve(sequence.sequence);
  return scheduler_->step(batch, probe);
}

MigrationReport Session::migrate(SequenceId sequence, const std::vector<int>& layers,
                                 std::string_view backend) {
  MigrationReport report =
      tandem::migrate(*state_, {sequence, backend_named(backend, plan().backend_names), layers});
  misses_->note_migration(sequence, state_->tokens(sequence), report);
  return report;
}

bool Session::holds(const Piece& piece, std::string_view backend) const {
  return residents_->holds(piece, backend_named(backend, plan().backend_names));
}

void Session::load(const Piece& piece, std::string_view backend, const LoadWatch& watch) {
  residents_->load(piece, backend_named(backend, plan().backend_names), watch);
}

void Session::unload(const Piece& piece, std::string_view backend) {
  residents_->unload(piece, backend_named(backend, plan().backend_names));
}

std::vector<float> Session::feed(SequenceId sequence, std::span<const TokenId> tokens, Outputs outputs,
                                 const std::function<bool()>& interrupted) {
  const StepLimits& limits = scheduler_->limits();
  const std::int64_t chunk =
      outputs == Outputs::all ? std::min(limits.tokens, limits.outputs) : limits.tokens;
  std::vector<float> logits;
  for (std::size_t begin = 0; begin < tokens.size();) {
    if (interrupted && interrupted())
      fail(ErrorCode::interrupted, "interrupted after {} of {} tokens", begin, tokens.size());
    const std::size_t count = std::min(static_cast<std::size_t>(chunk), tokens.size() - begin);
    const bool is_last = begin + count == tokens.size();
    const Outputs wanted = outputs == Outputs::last && !is_last ? Outputs::none : outputs;
    const SequenceTokens step[] = {{sequence, tokens.subspan(begin, count), wanted}};
    const std::vector<float> rows = std::move(this->step(step).front());
    logits.insert(logits.end(), rows.begin(), rows.end());
    begin += count;
  }
  return logits;
}

}  // namespace tandem
