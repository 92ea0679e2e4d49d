#include "graph/scheduler.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tandem {
namespace {

std::int64_t output_count(const SequenceTokens& sequence) {
  if (sequence.outputs == Outputs::none) return 0;
  return sequence.outputs == Outputs::last ? 1 : static_cast<std::int64_t>(sequence.tokens.size());
}

/// The host side of a batch: what the graph's index inputs hold.
struct Rows32 {
  std::vector<std::int32_t> ids, positions, outputs;

  void add(const SequenceTokens& sequence, std::int64_t first_position) {
    const auto first = static_cast<std::int64_t>(ids.size());
    const auto count = static_cast<std::int64_t>(sequence.tokens.size());
    ids.insert(ids.end(), sequence.tokens.begin(), sequence.tokens.end());
    for (std::int64_t i = 0; i < count; ++i)
      positions.push_back(static_cast<std::int32_t>(first_position + i));
    for (std::int64_t i = count - output_count(sequence); i < count; ++i) {
      outputs.push_back(static_cast<std::int32_t>(first + i));
    }
  }
};

InputData input(ValueId value, const std::vector<std::int32_t>& data) {
  return {value, ConstTensor(data.data(), DType::i32, Shape{static_cast<std::int64_t>(data.size())})};
}

}  // namespace

Scheduler::Scheduler(const Model& model, const Plan& plan, const Residents& residents, StateManager& state,
                     Executor& executor)
    : plan_(plan),
      residents_(residents),
      state_(state),
      executor_(executor),
      ids_(model.graph().find("ids")),
      positions_(model.graph().find("positions")),
      output_rows_(model.graph().find("output_rows")),
      logits_(model.graph().find("logits")),
      vocab_size_(model.config().vocab_size) {}

void Scheduler::check(std::span<const SequenceTokens> batch) const {
  std::int64_t tokens = 0, outputs = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].tokens.empty())
      fail(ErrorCode::invalid_argument, "step: sequence {} has no tokens", to_string(batch[i].sequence));
    for (TokenId id : batch[i].tokens) {
      if (id < 0 || id >= vocab_size_) {
        fail(ErrorCode::invalid_argument, "token id {} is outside the vocabulary (0 to {})", id,
             vocab_size_ - 1);
      }
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (batch[i].sequence == batch[j].sequence) {
        fail(ErrorCode::invalid_argument, "step: sequence {} is in the batch twice",
             to_string(batch[i].sequence));
      }
    }
    tokens += static_cast<std::int64_t>(batch[i].tokens.size());
    outputs += output_count(batch[i]);
  }
  if (batch.empty()) fail(ErrorCode::invalid_argument, "step: the batch is empty");
  if (tokens > limits().tokens || outputs > limits().outputs) {
    fail(ErrorCode::invalid_argument,
         "step: {} tokens and {} outputs, at most {} and {}; take them in chunks", tokens, outputs,
         limits().tokens, limits().outputs);
  }
}

void Scheduler::require_weights(std::span<const SequenceTokens> batch) const {
  residents_.require(plan_, std::any_of(batch.begin(), batch.end(), [](const SequenceTokens& sequence) {
                       return sequence.outputs != Outputs::none;
                     }));
}

void Scheduler::require_state(SequenceId sequence) const {
  for (std::size_t layer = 0; layer < plan_.state_home.size(); ++layer) {
    const int home = state_.home(sequence, static_cast<int>(layer));
    if (home == plan_.state_home[layer]) continue;
    fail(
        ErrorCode::not_resident,
        "layer {}: the plan runs it on {}, the state of sequence {} lives on {}; run it there or migrate the "
        "state first (nothing has been computed)",
        layer, plan_.backend_names[static_cast<std::size_t>(plan_.state_home[layer])], to_string(sequence),
        plan_.backend_names[static_cast<std::size_t>(home)]);
  }
}

std::vector<std::vector<float>> Scheduler::step(std::span<const SequenceTokens> batch, const Probe& probe) {
  check(batch);
  require_weights(batch);
  for (const SequenceTokens& sequence : batch) require_state(sequence.sequence);
  std::vector<StateStep> steps;
  steps.reserve(batch.size());
  std::vector<SequenceRows> sequences;
  Rows32 rows;
  for (const SequenceTokens& sequence : batch) {
    const auto count = static_cast<std::int64_t>(sequence.tokens.size());
    steps.push_back(state_.begin(sequence.sequence, count));
    sequences.push_back({&steps.back(), {static_cast<std::int64_t>(rows.ids.size()), count}});
    rows.add(sequence, steps.back().position());
  }
  const InputData inputs[] = {input(ids_, rows.ids), input(positions_, rows.positions),
                              input(output_rows_, rows.outputs)};
  const auto outputs = static_cast<std::int64_t>(rows.outputs.size());
  executor_.run({static_cast<std::int64_t>(rows.ids.size()), outputs, sequences, inputs}, probe);

  const std::vector<float> logits = executor_.read(logits_, outputs);
  std::vector<std::vector<float>> result;
  auto next = logits.begin();
  for (const SequenceTokens& sequence : batch) {
    const auto end = next + output_count(sequence) * vocab_size_;
    result.emplace_back(next, end);
    next = end;
  }
  for (StateStep& step : steps) step.commit();
  return result;
}

}  // namespace tandem
