#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/owned_mutex.hpp"
#include "core/text/token.hpp"
#include "graph/placement/plan.hpp"
#include "graph/run/executor.hpp"
#include "graph/run/residents.hpp"
#include "graph/run/routes.hpp"
#include "graph/run/step_recorder.hpp"
#include "graph/run/token_history.hpp"
#include "state/state_manager.hpp"

namespace tandem {

/// Which tokens of a step need logits.
enum class Outputs : std::uint8_t { none, last, all };

/// The next tokens of one sequence.
struct SequenceTokens {
  SequenceId sequence;
  std::span<const TokenId> tokens;
  Outputs outputs = Outputs::last;
  /// How many of the last tokens the step keeps a version after, each of which StateManager::rollback can
  /// return to: at most the tokens, and the budget's step_versions.
  std::int64_t versions = 1;
};

/// Looks at the logits of a batch's i-th sequence before anything is committed and says how many of its
/// tokens shall have happened; what it throws aborts the step. Who is asked for fewer than all tokens must
/// have kept a version there (SequenceTokens::versions).
using Accept = std::function<std::int64_t(std::size_t i, std::span<const float> logits)>;

/// A step that has begun and is not over: what its parts, begin, run and commit, hand to one another.
/// Dropping it, or clear(), aborts the step.
class OpenBatch {
 public:
  /// Whether there is anything to commit.
  bool open() const { return !steps_.empty(); }
  void clear() { steps_.clear(); }

 private:
  friend class Scheduler;

  /// Sequences of the batch, by their index in it, that run together.
  struct Group {
    std::shared_ptr<const Plan> plan;
    std::vector<std::size_t> members;
  };

  std::span<const SequenceTokens> batch_;
  std::vector<Group> groups_;
  std::vector<StateStep> steps_;            ///< by sequence of the batch
  std::vector<std::vector<float>> logits_;  ///< by sequence of the batch
  std::vector<int> parts_;                  ///< of each step, those to commit
  std::unique_ptr<StepRecorder> recorder_;  ///< null: nobody watches
};

/// Takes steps: a batch of sequences, each with any number of tokens, through all layers, as one transaction.
/// What a sequence computes does not depend on which others are in the batch. A layer runs where its state
/// lives (routes.hpp); sequences whose states live in the same places run together, the groups one after the
/// other.
///
/// Not thread-safe, with one exception for who takes a step in its parts: while one thread is in run(),
/// others may do anything that touches neither its sequences nor the backends that it runs on (uses()).
class Scheduler {
 public:
  /// All outlive the scheduler. The plan is the executor's; its backends are the state manager's, in the same
  /// order.
  Scheduler(const Model& model, const Plan& plan, const Residents& residents, StateManager& state,
            Executor& executor);

  /// Runs the tokens and commits: every sequence has its new versions. Returns the wanted logits of each
  /// sequence, [rows, vocab]. On an Error no sequence has changed: Error(invalid_argument) for an id outside
  /// the vocabulary, no tokens, a sequence given twice, more rows than the limits allow or more versions than
  /// the budget;
  /// Error(not_resident) when weights are not where a layer is to run, or a plan that is not movable
  /// does not run it where the state lives, which is looked at before anything runs; otherwise what state and
  /// backends throw.
  ///
  /// With `accept`, only the first tokens of a sequence are committed, as many as it says; the others are
  /// dropped, which copies nothing. Error(invalid_argument) when there is no version at that number.
  ///
  /// `lock` is what guards state and scheduler, if something does: it is let go of while the step computes,
  /// is accepted and told.
  std::vector<std::vector<float>> step(std::span<const SequenceTokens> batch, const Probe& probe = {},
                                       const Accept& accept = {}, OwnedLock* lock = nullptr);

  /// The same in parts. By backend, what a step of the batch would run on now; throws as begin.
  std::vector<bool> uses(std::span<const SequenceTokens> batch);
  /// Looks at everything and opens the steps. REQUIRES: the tokens live as long as what it returns.
  OpenBatch begin(std::span<const SequenceTokens> batch);
  /// All that can fail: computing, what `accept` says, what an observer makes of it.
  void run(OpenBatch& open, const Probe& probe = {}, const Accept& accept = {});
  std::vector<std::vector<float>> commit(OpenBatch& open) noexcept;

  /// The tokens of every committed step.
  const TokenHistory& history() const { return history_; }
  TokenHistory& history() { return history_; }

  /// Throws Error(not_resident) when a step of this sequence, its logits included, would be refused now.
  void require_resident(SequenceId sequence);

  /// From now on every step is recorded; null: no longer. The watch outlives its time here.
  void observe(StepWatch* watch) { watch_ = watch; }

  const StepLimits& limits() const { return executor_.limits(); }
  std::int64_t vocab_size() const { return vocab_size_; }

 private:
  using Group = OpenBatch::Group;

  void check(std::span<const SequenceTokens> batch) const;
  void require_weights(std::span<const SequenceTokens> batch, const Group& group) const;
  void require_state(SequenceId sequence) const;
  std::vector<Group> groups(std::span<const SequenceTokens> batch);
  int accepted_parts(const SequenceTokens& sequence, const StateStep& step, std::int64_t tokens) const;
  std::unique_ptr<StepRecorder> begin_record(std::span<const SequenceTokens> batch) const;
  void run(OpenBatch& open, const Group& group, const Probe& probe);

  const Plan& plan_;
  const Residents& residents_;
  StateManager& state_;
  Executor& executor_;
  Routes routes_;
  TokenHistory history_;
  ValueId ids_, positions_, output_rows_, logits_;
  std::int64_t vocab_size_;
  StepWatch* watch_ = nullptr;  ///< null: nobody watches
};

}  // namespace tandem
