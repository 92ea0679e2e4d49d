#include "graph/session.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tandem {
namespace {

bool covers(const std::vector<bool>& held, const std::vector<bool>& needed) {
  for (std::size_t b = 0; b < needed.size(); ++b) {
    if (needed[b] && !held[b]) return false;
  }
  return true;
}

}  // namespace

Session::Session(const Context& context, std::shared_ptr<const Model> model, const SessionOptions& options)
    : model_(std::move(model)),
      planned_(plan_session(context, model_->config(), model_->graph(), weight_sizes(*model_), options)),
      locks_(planned_.backends.size()) {
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
  const auto state = locks_.state();
  const SequenceId sequence = state_->open({planned_.residency, plan().state_home});
  misses_->set_policy(sequence, policy);
  return sequence;
}

SequenceId Session::fork(SequenceId sequence) {
  const auto state = locks_.state();
  const SequenceId fork = state_->fork(sequence);
  scheduler_->history().fork(sequence, fork);
  misses_->set_policy(fork, misses_->policy(sequence));
  return fork;
}

void Session::set_policy(SequenceId sequence, MissPolicy policy) {
  const auto state = locks_.state();
  misses_->set_policy(sequence, policy);
}

void Session::observe(StepObserver* observer) {
  const Exclusive exclusive = this->exclusive();
  std::unique_ptr<Observation> observation;
  if (observer != nullptr) {
    observation = std::make_unique<Observation>(*observer, model_->graph(), planned_.backends, *state_);
  }
  scheduler_->observe(observation.get());
  misses_->observe(observation.get());
  observation_ = std::move(observation);
}

void Session::close(SequenceId sequence) {
  const auto state = locks_.state();
  state_->close(sequence);
}

void Session::rollback(SequenceId sequence, std::int64_t version) {
  const auto state = locks_.state();
  state_->rollback(sequence, version);
}

void Session::reset(SequenceId sequence) {
  const auto state = locks_.state();
  state_->reset(sequence);
}

std::int64_t Session::tokens(SequenceId sequence) const {
  const auto state = locks_.state();
  return state_->tokens(sequence);
}

std::vector<VersionInfo> Session::versions(SequenceId sequence) const {
  const auto state = locks_.state();
  return state_->versions(sequence);
}

void Session::require_resident(SequenceId sequence) {
  const auto state = locks_.state();
  scheduler_->require_resident(sequence);
}

std::deque<ResidencyEvent> Session::events() const {
  const auto state = locks_.state();
  return misses_->events();
}

/// By backend. A miss may move states between any two.
std::vector<bool> Session::needed_by(std::span<const SequenceTokens> batch) {
  const auto missed = [&](const SequenceTokens& s) { return misses_->missed(s.sequence); };
  if (std::any_of(batch.begin(), batch.end(), missed))
    return std::vector<bool>(planned_.backends.size(), true);
  return scheduler_->uses(batch);
}

/// Backends come before the state, and which ones are needed is known with the state only: looked up, let go,
/// and looked up again when the backends are held, as weights may have come or gone in between.
Session::Ready Session::lock_for(std::span<const SequenceTokens> batch) {
  const auto look = [&] {
    const auto state = locks_.state();
    return needed_by(batch);
  };
  while (true) {
    const std::vector<bool> wanted = look();
    Ready ready{locks_.backends(wanted), locks_.state()};
    if (covers(wanted, needed_by(batch))) return ready;
  }
}

std::vector<std::vector<float>> Session::step(std::span<const SequenceTokens> batch, const Probe& probe,
                                              const Accept& accept) {
  Ready ready = lock_for(batch);
  for (const SequenceTokens& sequence : batch) misses_->resolve(sequence.sequence);
  OpenBatch open = scheduler_->begin(batch);
  ready.state.unlock();
  try {
    scheduler_->run(open, probe, accept);
  } catch (...) {
    ready.state.lock();
    open.clear();
    throw;
  }
  ready.state.lock();
  return scheduler_->commit(open);
}

int Session::backend_index(std::string_view name) const { return backend_named(name, plan().backend_names); }

MigrationReport Session::migrate(SequenceId sequence, const std::vector<int>& layers,
                                 std::string_view backend) {
  const Exclusive exclusive = this->exclusive();
  MigrationReport report = tandem::migrate(*state_, {sequence, backend_index(backend), layers});
  misses_->note_migration(sequence, state_->tokens(sequence), report);
  return report;
}

bool Session::holds(const Piece& piece, std::string_view backend) const {
  const auto state = locks_.state();
  return residents_->holds(piece, backend_index(backend));
}

void Session::load(const Piece& piece, std::string_view backend, const LoadWatch& watch) {
  const Exclusive exclusive = this->exclusive();
  residents_->load(piece, backend_index(backend), watch);
}

void Session::unload(const Piece& piece, std::string_view backend) {
  const Exclusive exclusive = this->exclusive();
  residents_->unload(piece, backend_index(backend));
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
