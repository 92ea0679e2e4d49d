#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/context.hpp"
#include "graph/executor.hpp"
#include "graph/scheduler.hpp"
#include "state/state_manager.hpp"

namespace tandem {

struct SessionOptions {
  std::string place = "cpu";        ///< graph/placement.hpp
  std::int64_t context_tokens = 0;  ///< of each sequence; 0: 4096 or the model's own limit if that is less
  std::int64_t sequences = 1;       ///< open at a time
  std::int64_t kept_versions = 1;   ///< of each sequence, for rollback
  StepLimits limits;                ///< longer inputs go through in chunks
  Residency residency = Residency::uniform;
};

/// A model made ready on some backends: weights resident, state and workspace allocated, nothing more to
/// allocate afterwards. Owns state, executor and scheduler. The context outlives it; the model is shared.
/// Neither copied nor moved. Not thread-safe.
class Session {
 public:
  /// Throws what Placement::parse throws; Error(out_of_memory) saying how much was wanted; Error(unsupported)
  /// when the placement mixes backends of different element types; Error(invalid_argument) for a context
  /// above the model's limit.
  Session(const Context& context, std::shared_ptr<const Model> model, const SessionOptions& options);
  Session(const Session&) = delete;  // its parts refer to each other
  Session& operator=(const Session&) = delete;

  /// A sequence of no tokens, its state where the plan has it. Throws as StateManager::open.
  SequenceId open();

  /// Takes any number of tokens of one sequence in chunks of at most limits.tokens and returns the wanted
  /// logits, [rows, vocab]. Each chunk is a step of its own: on an Error, or when `interrupted` returns true
  /// between chunks (Error(interrupted)), the chunks before it stay.
  std::vector<float> feed(SequenceId sequence, std::span<const TokenId> tokens, Outputs outputs,
                          const std::function<bool()>& interrupted = {});

  StateManager& state() { return *state_; }
  const StateManager& state() const { return *state_; }
  Scheduler& scheduler() { return *scheduler_; }
  const Executor& executor() const { return *executor_; }
  const Model& model() const { return *model_; }
  const Plan& plan() const { return plan_; }
  std::int64_t context_tokens() const { return state_->budget().context_tokens; }
  std::int64_t vocab_size() const { return scheduler_->vocab_size(); }

 private:
  std::shared_ptr<const Model> model_;
  Residency residency_;
  std::vector<Backend*> backends_;  ///< those that the plan uses, in its numbering
  Plan plan_;
  std::unique_ptr<StateManager> state_;
  std::unique_ptr<Residents> residents_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace tandem
