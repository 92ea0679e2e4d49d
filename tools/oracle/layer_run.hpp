#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/context.hpp"
#include "graph/run/executor.hpp"
#include "state/layer_state.hpp"
#include "tools/oracle/generated_layer.hpp"

namespace tandem::tools {

/// Runs the one layer of a generated model on one backend, with a state of its own in the place that it has
/// there.
class LayerRun {
 public:
  /// `backend` is a name in the context. All outlive the run.
  LayerRun(const Context& context, const std::string& backend, std::shared_ptr<const Model> model,
           std::int64_t max_tokens);

  /// Takes the next tokens, x [tokens, hidden], in one step, and returns the layer's outputs [tokens,
  /// hidden].
  std::vector<float> step(std::span<const float> x, const Probe& probe = {});

  std::int64_t tokens() const { return state_->tokens(sequence_); }
  DType real() const { return state_->geometry().real; }
  LayerState state() const { return export_layer(*state_, sequence_, layer_); }
  /// Back to no tokens.
  void reset() { state_->reset(sequence_); }

 private:
  std::shared_ptr<const Model> model_;
  int layer_;
  Plan plan_;
  std::unique_ptr<StateManager> state_;
  std::unique_ptr<Residents> residents_;
  std::unique_ptr<Executor> executor_;
  SequenceId sequence_;
};

}  // namespace tandem::tools
