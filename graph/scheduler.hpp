#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/text/token.hpp"
#include "graph/executor.hpp"
#include "graph/plan.hpp"
#include "graph/residents.hpp"
#include "graph/routes.hpp"
#include "graph/token_history.hpp"
#include "state/state_manager.hpp"

namespace tandem {

/// Which tokens of a step need logits.
enum class Outputs : std::uint8_t { none, last, all };

/// The next tokens of one sequence.
struct SequenceTokens {
  SequenceId sequence;
  std::span<const TokenId> tokens;
  Outputs outputs = Outputs::last;
};

/// Takes steps: a batch of sequences, each with any number of tokens, through all layers, as one transaction.
/// What a sequence computes does not depend on which others are in the batch. A layer runs where its state
/// lives (routes.hpp); sequences whose states live in the same places run together, the groups one after the
/// other. Not thread-safe.
class Scheduler {
 public:
  /// All outlive the scheduler. The plan is the executor's; its backends are the state manager's, in the same
  /// order.
  Scheduler(const Model& model, const Plan& plan, const Residents& residents, StateManager& state,
            Executor& executor);

  /// Runs the tokens and commits: every sequence has a new version. Returns the wanted logits of each
  /// sequence, [rows, vocab]. On an Error no sequence has changed: Error(invalid_argument) for an id outside
  /// the vocabulary, no tokens, a sequence given twice, or more rows than the limits allow;
  /// Error(not_resident) when weights are not where a layer is to run, or a plan that is not movable
  /// does not run it where the state lives, which is looked at before anything runs; otherwise what state and
  /// backends throw.
  std::vector<std::vector<float>> step(std::span<const SequenceTokens> batch, const Probe& probe = {});

  /// The tokens of every committed step.
  const TokenHistory& history() const { return history_; }
  TokenHistory& history() { return history_; }

  /// Throws Error(not_resident) when a step of this sequence, its logits included, would be refused now.
  void require_resident(SequenceId sequence);

  /// From now on every step is recorded; null: no longer. The recorder outlives its time here.
  void record(StepRecorder* recorder);

  const StepLimits& limits() const { return executor_.limits(); }
  std::int64_t vocab_size() const { return vocab_size_; }

 private:
  /// Sequences of a batch, by their index in it, that run together.
  struct Group {
    std::shared_ptr<const Plan> plan;
    std::vector<std::size_t> members;
  };

  void check(std::span<const SequenceTokens> batch) const;
  void require_weights(std::span<const SequenceTokens> batch, const Group& group) const;
  void require_state(SequenceId sequence) const;
  std::vector<Group> groups(std::span<const SequenceTokens> batch);
  void begin_record(std::span<const SequenceTokens> batch) const;
  void run(std::span<const SequenceTokens> batch, const Group& group, std::vector<StateStep>& steps,
           const Probe& probe, std::vector<std::vector<float>>& logits);

  const Plan& plan_;
  const Residents& residents_;
  StateManager& state_;
  Executor& executor_;
  Routes routes_;
  TokenHistory history_;
  ValueId ids_, positions_, output_rows_, logits_;
  std::int64_t vocab_size_;
  StepRecorder* recorder_ = nullptr;  ///< null: nobody watches
};

}  // namespace tandem
