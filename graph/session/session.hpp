#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/context.hpp"
#include "graph/continuity/mirror.hpp"
#include "graph/continuity/misses.hpp"
#include "graph/continuity/recovery.hpp"
#include "graph/placement/session_plan.hpp"
#include "graph/run/executor.hpp"
#include "graph/run/scheduler.hpp"
#include "graph/run/step_recorder.hpp"
#include "graph/session/session_locks.hpp"
#include "state/layer_state.hpp"
#include "state/migration.hpp"
#include "state/state_manager.hpp"

namespace tandem {

/// A model made ready on some backends: weights resident, state and workspace allocated. Nothing more is
/// allocated afterwards, except by load(). Owns state, executor and scheduler. The context outlives it; the
/// model is shared. Neither copied nor moved.
///
/// Thread-safety: the verbs may be called from several threads for different sequences; forking and saving
/// are verbs of the sequence that is forked or saved. Steps on different backends run at the same time, steps
/// on the same one after the other, those of other sessions over the context too; moving states and loading
/// or freeing weights waits for all steps, and with a mirror or a plan of faults steps take turns. What
/// state(), scheduler(), residents() and executor() give is unguarded: for a session that one thread has to
/// itself, or has locked.
///
/// Callbacks (probes, Accept, observers, the watch of load()) may look at the session: tokens, versions,
/// holds, lost, events. They may open, fork and close sequences that are not in the step, but not where
/// budget's poison is on. What needs a backend (steps, migrations, loading, observe, exclusive) is refused
/// there with Error(invalid_argument), in this and in every other session over the context.
class Session {
 public:
  /// Throws Error(invalid_argument) without a model, what plan_session and require_fit throw, before anything
  /// is loaded or allocated; what the backends throw; Error(interrupted) when the options' watch says so.
  Session(const Context& context, std::shared_ptr<const Model> model, const SessionOptions& options);
  Session(const Session&) = delete;  // its parts refer to each other
  Session& operator=(const Session&) = delete;
  /// Waits for steps of other sessions over the context.
  ~Session();

  /// A sequence of no tokens, its state where the plan has it, and what a step of it does when weights are
  /// missed (a policy other than refuse needs SessionOptions::homes). Throws as StateManager::open.
  SequenceId open(MissPolicy policy = MissPolicy::refuse);
  /// As StateManager::fork; the fork has the same policy, and can be replayed as its original can.
  SequenceId fork(SequenceId sequence);
  /// Throws Error(not_found) for a sequence that is not open.
  void set_policy(SequenceId sequence, MissPolicy policy);

  /// As the verbs of StateManager, for a session that several threads use.
  void close(SequenceId sequence);
  void rollback(SequenceId sequence, std::int64_t version);
  void reset(SequenceId sequence);
  std::int64_t tokens(SequenceId sequence) const;
  std::vector<VersionInfo> versions(SequenceId sequence) const;
  /// The last `count` tokens that the sequence has taken; all of them when it has fewer. Throws
  /// Error(unsupported) when they are not known, as of a state that was imported without its tokens.
  std::vector<TokenId> last_tokens(SequenceId sequence, std::int64_t count) const;

  /// A layer of a sequence's newest version in host memory. Throws as export_layer.
  LayerState layer_state(SequenceId sequence, int layer) const;

  /// Throws Error(not_resident) unless all weights are loaded where a step of this sequence would run now:
  /// until something is unloaded or moved, nothing will be missed.
  void require_resident(SequenceId sequence);

  /// Scheduler::step, after the policies of the sequences have seen to weights that are missed. On an Error
  /// no sequence has taken a token, whoever threw it; states that a policy has moved by then are where it
  /// moved them, and the step can be taken again. What follows the commit, a mirror's copy, cannot fail it.
  ///
  /// When a backend is lost on the way, the sequences of the batch are brought elsewhere (recovery.hpp) and
  /// the step is taken again, with the same bits; `probe` then sees some values twice. Error(device_lost)
  /// when that is not possible: sequences that do not need the backend go on in other steps.
  std::vector<std::vector<float>> step(std::span<const SequenceTokens> batch, const Probe& probe = {},
                                       const Accept& accept = {});

  /// What has happened to where state and weights are, oldest first; the last Misses::kEvents events.
  std::deque<ResidencyEvent> events() const;

  /// Moves the state of layers (none named: of all) to another backend; from the next step on they run there,
  /// where load() must have brought their weights. As tandem::migrate for one Move; that takes several
  /// sequences at once. Throws Error(unsupported) for a backend that the session does not use.
  MigrationReport migrate(SequenceId sequence, const std::vector<int>& layers, std::string_view backend);

  /// Takes any number of tokens of one sequence in chunks of at most limits.tokens and returns the wanted
  /// logits, [rows, vocab]. Each chunk is a step of its own: on an Error, or when `interrupted` returns true
  /// between chunks (Error(interrupted)), the chunks before it stay.
  std::vector<float> feed(SequenceId sequence, std::span<const TokenId> tokens, Outputs outputs,
                          const std::function<bool()>& interrupted = {});

  /// Which weights a backend of the session holds, and their coming and going while it runs: a layer, a part
  /// of a layer, embedding or head, as in holds(3, "cpu"), load({3, Part::mlp}, "cuda:0"),
  /// unload(Part::head, "cuda:0"). A step whose weights are not all where it is to run them is refused with
  /// Error(not_resident) before anything is computed, unless the sequence's policy finds another way. load
  /// and unload as in Residents; all throw Error(invalid_argument) for a piece that the model has not,
  /// Error(unsupported) for a backend that the session does not use.
  bool holds(const Piece& piece, std::string_view backend) const;
  void load(const Piece& piece, std::string_view backend, const LoadWatch& watch = {});
  void unload(const Piece& piece, std::string_view backend);

  /// Whether a backend has stopped answering and is not used any more. Throws Error(unsupported) for one that
  /// the session does not use.
  bool lost(std::string_view backend) const;

  /// Waits until no other thread is in the session and keeps them out while it lives. The verbs themselves
  /// are refused meanwhile with Error(invalid_argument) to the thread that has it.
  class Exclusive {
   public:
    /// For functions that let go of it while they copy: what others look at stands still only in between.
    SessionLocks::Lock& state_lock() { return state_; }

   private:
    friend class Session;
    explicit Exclusive(SessionLocks& locks) : backends_(locks.all_backends()), state_(locks.state()) {}
    std::vector<SessionLocks::Lock> backends_;
    SessionLocks::Lock state_;
  };
  [[nodiscard]] Exclusive exclusive() const { return Exclusive(locks_); }

  /// From now on the observer is told of every step, miss and migration; null: nobody. What is computed is
  /// the same, by bits and in its order; without an observer nothing is measured. It outlives its time here.
  /// Throws what the one before threw last (StepObserver::residency); the new one is there all the same.
  void observe(StepObserver* observer);

  StateManager& state() { return *state_; }
  const StateManager& state() const { return *state_; }
  Scheduler& scheduler() { return *scheduler_; }
  const Executor& executor() const { return *executor_; }
  const Model& model() const { return *model_; }
  const Plan& plan() const { return planned_.plan; }
  /// Where a new sequence's layers live now. Throws Error(device_lost) when that is nowhere.
  SequenceOptions sequence_options() const { return {planned_.residency, recovery_->first_homes()}; }
  const SessionPlan& planned() const { return planned_; }
  const Residents& residents() const { return *residents_; }
  std::int64_t context_tokens() const { return state_->budget().context_tokens; }
  std::int64_t vocab_size() const { return scheduler_->vocab_size(); }

 private:
  /// What a thread holds when it begins a step: the backends that it will use, and the state.
  struct Ready {
    std::vector<SessionLocks::Lock> backends;
    SessionLocks::Lock state;
  };
  Ready lock_for(std::span<const SequenceTokens> batch);
  Ready lock_to_give_back() const;
  std::vector<bool> needed_by(std::span<const SequenceTokens> batch);
  int backend_index(std::string_view name) const;
  std::vector<std::vector<float>> attempt(std::span<const SequenceTokens> batch, const Probe& probe,
                                          const Accept& accept);
  bool notice(const Error& error, std::uint64_t losses);

  std::shared_ptr<const Model> model_;
  SessionPlan planned_;
  mutable SessionLocks locks_;
  std::vector<SessionLocks::Lock> held_;  ///< while it is made, and while the parts below go
  std::unique_ptr<StateManager> state_;
  std::unique_ptr<Residents> residents_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Misses> misses_;
  std::unique_ptr<StepWatch> watch_;  ///< null: nobody watches
  std::unique_ptr<Mirror> mirror_;
  std::unique_ptr<Recovery> recovery_;
  std::shared_ptr<Faults> faults_;
  bool verify_ = false;
};

/// A sequence of a session that is closed whatever happens, unless somebody has closed it or a step of it is
/// under way. The session outlives it.
class ScopedSequence {
 public:
  explicit ScopedSequence(Session& session, MissPolicy policy = MissPolicy::refuse)
      : session_(session), id_(session.open(policy)) {}
  ~ScopedSequence();
  ScopedSequence(const ScopedSequence&) = delete;
  ScopedSequence& operator=(const ScopedSequence&) = delete;
  SequenceId id() const { return id_; }

 private:
  Session& session_;
  SequenceId id_;
};

}  // namespace tandem
