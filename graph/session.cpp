#include "graph/session.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tandem {
namespace {

/// Page-locked by a device, if there is one.
Backend& mirror_memory(const std::vector<Backend*>& backends) {
  const auto device =
      std::find_if(backends.begin(), backends.end(), [](const Backend* b) { return !b->info().host_memory; });
  return device == backends.end() ? *backends.front() : **device;
}

}  // namespace

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
  faults_ = options.faults;
  misses_ = std::make_unique<Misses>(plan(), *residents_, *state_, *scheduler_, faults_.get());
  mirror_ = std::make_unique<Mirror>(MirrorOptions{options.mirror_every, options.verify_transfers}, *state_,
                                     mirror_memory(backends), *misses_);
  recovery_ = std::make_unique<Recovery>(plan(), backends, *residents_, *state_, *scheduler_, *executor_,
                                         *misses_, *mirror_);
  if (options.verify_transfers) executor_->verify_transfers();
}

SequenceId Session::open(MissPolicy policy) {
  const SequenceId sequence = state_->open(sequence_options());
  misses_->set_policy(sequence, policy);
  return sequence;
}

SequenceId Session::fork(SequenceId sequence) {
  const SequenceId fork = state_->fork(sequence);
  scheduler_->history().fork(sequence, fork);
  misses_->set_policy(fork, misses_->policy(sequence));
  return fork;
}

std::vector<std::vector<float>> Session::step(std::span<const SequenceTokens> batch, const Probe& probe) {
  std::vector<std::int64_t> positions;
  for (const SequenceTokens& sequence : batch) positions.push_back(state_->tokens(sequence.sequence));
  std::vector<std::vector<float>> logits = attempt(batch, probe);
  for (std::size_t i = 0; i < batch.size(); ++i) mirror_->after_step(batch[i].sequence, positions[i]);
  return logits;
}

/// Each turn but the last has lost a backend.
std::vector<std::vector<float>> Session::attempt(std::span<const SequenceTokens> batch, const Probe& probe) {
  for (;;) {
    try {
      for (const SequenceTokens& sequence : batch) {
        const std::int64_t first = state_->tokens(sequence.sequence), count = std::ssize(sequence.tokens);
        if (faults_) faults_->reach(first, first + count);
        recovery_->resolve(sequence.sequence);
        misses_->resolve(sequence.sequence, count);
      }
      return scheduler_->step(batch, probe);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::device_lost || !recovery_->notice(error)) throw;
    }
  }
}

bool Session::lost(std::string_view backend) const {
  return recovery_->lost(backend_named(backend, plan().backend_names));
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
