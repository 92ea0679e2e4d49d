#include "graph/session/session.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/float_environment.hpp"

namespace tandem {
namespace {

bool covers(const std::vector<bool>& held, const std::vector<bool>& needed) {
  for (std::size_t b = 0; b < needed.size(); ++b) {
    if (needed[b] && !held[b]) return false;
  }
  return true;
}

std::shared_ptr<const Model> required(std::shared_ptr<const Model> model) {
  if (model == nullptr) fail(ErrorCode::invalid_argument, "a session needs a model, found none");
  return model;
}

/// Asks the backends what they have to spare while no other session uses them.
SessionPlan plan_alone(const Context& context, const Model& model, const SessionOptions& options) {
  const FloatEnvironment environment;
  std::vector<Backend*> all;
  for (std::size_t i = 0; i < context.size(); ++i) all.push_back(&context.backend(i));
  const auto held = SessionLocks(context, all).all_backends();
  return plan_session(context, model.config(), model.graph(), weight_sizes(model), options);
}

/// Tells what has happened when it goes, with the backends held and the state let go of.
class Telling {
 public:
  Telling(StepWatch* watch, SessionLocks::Lock& state) : watch_(watch), state_(state) {}
  ~Telling() {
    if (watch_ == nullptr) return;
    if (state_.owns_lock()) state_.unlock();
    watch_->tell();
  }
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;

 private:
  StepWatch* watch_;
  SessionLocks::Lock& state_;
};

}  // namespace

Session::Session(const Context& context, std::shared_ptr<const Model> model, const SessionOptions& options)
    : model_(required(std::move(model))),
      planned_(plan_alone(context, *model_, options)),
      locks_(context, planned_.backends),
      held_(locks_.all_backends()) {
  const FloatEnvironment environment;
  require_fit(planned_);
  const std::vector<Backend*>& backends = planned_.backends;
  state_ = std::make_unique<StateManager>(planned_.geometry, backends,
                                          layer_capacities(planned_.geometry, plan()), planned_.budget);
  residents_ = std::make_unique<Residents>(*model_, backends, options.verify_transfers);
  residents_->load(plan(), options.watch);
  executor_ = std::make_unique<Executor>(*model_, plan(), backends, *residents_, options.limits,
                                         planned_.budget.context_tokens, options.verify_transfers);
  scheduler_ = std::make_unique<Scheduler>(*model_, plan(), *residents_, *state_, *executor_);
  faults_ = options.faults;
  misses_ = std::make_unique<Misses>(plan(), *residents_, *state_, *scheduler_, faults_.get());
  mirror_ = std::make_unique<Mirror>(MirrorOptions{options.mirror_every, options.verify_transfers}, *state_,
                                     staging_owner(backends), *misses_);
  recovery_ = std::make_unique<Recovery>(plan(), backends, *residents_, *state_, *scheduler_, *executor_,
                                         *misses_, *mirror_);
  verify_ = options.verify_transfers;
  held_.clear();
}

Session::~Session() { held_ = locks_.other_backends(); }

SequenceId Session::open(MissPolicy policy) {
  const auto state = locks_.state();
  const SequenceId sequence = state_->open(sequence_options());
  try {
    misses_->set_policy(sequence, policy);
  } catch (...) {
    state_->close(sequence);
    throw;
  }
  return sequence;
}

SequenceId Session::fork(SequenceId sequence) {
  const auto state = locks_.state();
  const SequenceId fork = state_->fork(sequence);
  try {
    scheduler_->history().fork(sequence, fork);
    misses_->set_policy(fork, misses_->policy(sequence));
  } catch (...) {
    state_->close(fork);
    throw;
  }
  return fork;
}

void Session::set_policy(SequenceId sequence, MissPolicy policy) {
  const auto state = locks_.state();
  state_->tokens(sequence);  // throws when there is no such sequence
  misses_->set_policy(sequence, policy);
}

bool Session::lost(std::string_view backend) const {
  const auto state = locks_.state();
  return recovery_->lost(backend_index(backend));
}

void Session::observe(StepObserver* observer) {
  const Exclusive exclusive = this->exclusive();
  std::unique_ptr<StepWatch> watch;
  if (observer != nullptr) {
    watch = std::make_unique<StepWatch>(*observer, model_->graph(), planned_.backends, *state_, verify_);
  }
  scheduler_->observe(watch.get());
  misses_->observe(watch.get());
  std::swap(watch_, watch);
  if (watch) watch->rethrow();
}

/// Blocks that are poisoned are written when they are given back.
Session::Ready Session::lock_to_give_back() const {
  const std::vector<bool> written(planned_.backends.size(), planned_.budget.poison);
  return {locks_.backends(written), locks_.state()};
}

void Session::close(SequenceId sequence) {
  const Ready ready = lock_to_give_back();
  state_->close(sequence);
}

void Session::rollback(SequenceId sequence, std::int64_t version) {
  const Ready ready = lock_to_give_back();
  state_->rollback(sequence, version);
}

void Session::reset(SequenceId sequence) {
  const Ready ready = lock_to_give_back();
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

std::vector<TokenId> Session::last_tokens(SequenceId sequence, std::int64_t count) const {
  const auto state = locks_.state();
  const std::int64_t tokens = state_->tokens(sequence);
  if (count <= 0) return {};
  const auto known = scheduler_->history().of(sequence, tokens);
  if (!known) {
    fail(ErrorCode::unsupported, "the {} tokens of the sequence are not known, only its state", tokens);
  }
  const auto last = known->last(static_cast<std::size_t>(std::min(count, tokens)));
  return {last.begin(), last.end()};
}

LayerState Session::layer_state(SequenceId sequence, int layer) const {
  const auto home = [&] { return static_cast<std::size_t>(state_->home(sequence, layer)); };
  const auto look = [&] {
    const auto state = locks_.state();
    return home();
  };
  while (true) {
    std::vector<bool> wanted(planned_.backends.size(), false);
    wanted[look()] = true;
    const auto backends = locks_.backends(wanted);
    auto state = locks_.state();
    if (!wanted[home()]) continue;
    const LayerView view = state_->view(sequence, layer);
    state.unlock();
    return export_layer(view);
  }
}

void Session::require_resident(SequenceId sequence) {
  const auto state = locks_.state();
  scheduler_->require_resident(sequence);
}

std::deque<ResidencyEvent> Session::events() const {
  const auto state = locks_.state();
  return misses_->events();
}

/// By backend. A miss may move states between any two, and so may whatever follows a loss; a mirror may still
/// be copying from where a state was before; and a plan of faults counts the calls of all.
std::vector<bool> Session::needed_by(std::span<const SequenceTokens> batch) {
  const auto missed = [&](const SequenceTokens& s) { return misses_->missed(s.sequence); };
  if (mirror_->on() || faults_ || recovery_->any_lost() || std::any_of(batch.begin(), batch.end(), missed))
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

/// Each turn but the last has lost a backend. What is tried again was never committed: after the commit
/// nothing throws.
std::vector<std::vector<float>> Session::step(std::span<const SequenceTokens> batch, const Probe& probe,
                                              const Accept& accept) {
  const FloatEnvironment environment;
  for (;;) {
    const std::uint64_t losses = recovery_->losses();
    try {
      return attempt(batch, probe, accept);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::device_lost || !notice(error, losses)) throw;
    }
  }
}

/// Whether a backend was lost since there were that many losses: this thread may not be the first to see it.
bool Session::notice(const Error& error, std::uint64_t losses) {
  const auto backends = locks_.all_backends();
  SessionLocks::Lock state = locks_.state_later();
  if (recovery_->losses() == losses) recovery_->notice(error, &state);
  if (watch_) watch_->tell();
  return recovery_->losses() != losses;
}

std::vector<std::vector<float>> Session::attempt(std::span<const SequenceTokens> batch, const Probe& probe,
                                                 const Accept& accept) {
  Ready ready = lock_for(batch);
  const Telling telling(watch_.get(), ready.state);
  if (watch_) watch_->rethrow();
  std::vector<std::int64_t> positions;
  for (const SequenceTokens& sequence : batch) {
    const std::int64_t first = state_->tokens(sequence.sequence), count = std::ssize(sequence.tokens);
    positions.push_back(first);
    if (faults_) faults_->reach(first, first + count);
    recovery_->resolve(sequence.sequence, &ready.state);
    misses_->resolve(sequence.sequence, count, &ready.state);
  }
  std::vector<std::vector<float>> logits = scheduler_->step(batch, probe, accept, &ready.state);
  // The step has happened: from here on nothing throws.
  for (std::size_t i = 0; i < batch.size(); ++i)
    mirror_->after_step(batch[i].sequence, positions[i], &ready.state);
  return logits;
}

int Session::backend_index(std::string_view name) const { return backend_named(name, plan().backend_names); }

MigrationReport Session::migrate(SequenceId sequence, const std::vector<int>& layers,
                                 std::string_view backend) {
  const FloatEnvironment environment;
  const auto backends = locks_.all_backends();
  auto state = locks_.state();
  const Telling telling(watch_.get(), state);
  if (watch_) watch_->rethrow();
  MigrationReport report = tandem::migrate(*state_, {sequence, backend_index(backend), layers}, &state);
  misses_->note_migration(sequence, state_->tokens(sequence), report);
  return report;
}

bool Session::holds(const Piece& piece, std::string_view backend) const {
  const auto state = locks_.state();
  return residents_->holds(piece, backend_index(backend));
}

void Session::load(const Piece& piece, std::string_view backend, const LoadWatch& watch) {
  const FloatEnvironment environment;
  const auto backends = locks_.all_backends();
  auto state = locks_.state();
  if (watch_) watch_->rethrow();
  residents_->load(piece, backend_index(backend), watch, &state);
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

ScopedSequence::~ScopedSequence() {
  try {
    session_.close(id_);
  } catch (const std::exception&) {
    // It is closed already, or where it must not be: a destructor has nobody to tell.
  }
}

}  // namespace tandem
