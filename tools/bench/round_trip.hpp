#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/backend.hpp"
#include "graph/model/model.hpp"
#include "state/layer_state.hpp"

namespace tandem::tools {

/// One Gated DeltaNet mixer on one backend, fed tokens one at a time in two ways that submit the same
/// operators, each on one row, in the same order:
///  - host-facing: each token's input is sent to the backend and its output awaited before the next one;
///  - device-internal: all inputs are sent at once, all steps submitted without waiting, all outputs fetched
///  at once.
/// What differs in time is the round trips; in the results, nothing may. Everything is allocated by the
/// constructor. Not thread-safe.
class RoundTrip {
 public:
  /// `model` is a mixer alone (build_gdn_graph), `inputs` are f32 [tokens, hidden]. Throws as Backend.
  RoundTrip(Backend& backend, std::shared_ptr<const Model> model, std::span<const float> inputs);
  ~RoundTrip();

  /// What one way gave, with how long it took.
  struct Outcome {
    double milliseconds = 0;         ///< from the first input's departure to the last output's arrival
    std::vector<std::byte> outputs;  ///< real [tokens, hidden]
    LayerState state;                ///< after the last token
  };

  /// Each starts without a state.
  Outcome host_facing();
  Outcome device_internal();

  std::int64_t tokens() const { return tokens_; }
  DType real() const { return backend_.info().real; }

 private:
  class TokenBindings;

  void allocate_values();
  void submit_token(std::int64_t token);
  /// Runs `work` between two marks, from and to a clean state.
  Outcome measure(const std::function<void()>& work);
  std::byte* input_row(std::int64_t token) const;
  std::byte* output_row(std::int64_t token) const;

  Backend& backend_;
  std::shared_ptr<const Model> model_;
  std::int64_t tokens_;
  std::size_t row_bytes_;  ///< of one token's input, and output
  ValueId x_, out_;
  std::vector<ResidentTensor> weights_;  ///< by WeightId
  std::vector<Buffer> values_;           ///< by ValueId; x and out have a row for every token, the others one
  Buffer inputs_, outputs_;              ///< staging memory, a row for every token
  std::unique_ptr<StateManager> state_;
  SequenceId sequence_;
};

}  // namespace tandem::tools
