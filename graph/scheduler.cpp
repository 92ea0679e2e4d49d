#include "graph/scheduler.hpp"

#include <algorithm>
#include <map>

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
      routes_(model.graph(), state.geometry(), plan, residents),
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

void Scheduler::require_weights(std::span<const SequenceTokens> batch, const Group& group) const {
  residents_.require(*group.plan, std::any_of(group.members.begin(), group.members.end(), [&](std::size_t i) {
    return batch[i].outputs != Outputs::none;
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

void Scheduler::require_resident(SequenceId sequence) {
  const TokenId none[] = {0};
  const SequenceTokens batch[] = {{sequence, none, Outputs::last}};
  for (const Group& group : groups(batch)) require_weights(batch, group);
}

std::vector<Scheduler::Group> Scheduler::groups(std::span<const SequenceTokens> batch) {
  std::vector<Group> groups;
  std::map<std::vector<int>, std::size_t> known;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::vector<int>& homes = state_.homes(batch[i].sequence);
    if (!plan_.movable()) require_state(batch[i].sequence);
    const auto [found, is_new] = known.try_emplace(homes, groups.size());
    if (is_new) groups.push_back({routes_.of(homes), {}});
    groups[found->second].members.push_back(i);
  }
  return groups;
}

void Scheduler::run(std::span<const SequenceTokens> batch, const Group& group, std::vector<StateStep>& steps,
                    const Probe& probe, std::vector<std::vector<float>>& logits) {
  std::vector<SequenceRows> sequences;
  Rows32 rows;
  for (std::size_t i : group.members) {
    const auto count = static_cast<std::int64_t>(batch[i].tokens.size());
    sequences.push_back({&steps[i], {static_cast<std::int64_t>(rows.ids.size()), count}});
    rows.add(batch[i], steps[i].position());
  }
  const InputData inputs[] = {input(ids_, rows.ids), input(positions_, rows.positions),
                              input(output_rows_, rows.outputs)};
  const auto outputs = static_cast<std::int64_t>(rows.outputs.size());
  executor_.run(*group.plan, {static_cast<std::int64_t>(rows.ids.size()), outputs, sequences, inputs}, probe);

  const std::vector<float> all = executor_.read(*group.plan, logits_, outputs);
  auto next = all.begin();
  for (std::size_t i : group.members) {
    const auto end = next + output_count(batch[i]) * vocab_size_;
    logits[i].assign(next, end);
    next = end;
  }
}

std::vector<std::vector<float>> Scheduler::step(std::span<const SequenceTokens> batch, const Probe& probe) {
  check(batch);
  const std::vector<Group> groups = this->groups(batch);
  for (const Group& group : groups) require_weights(batch, group);
  std::vector<StateStep> steps;
  steps.reserve(batch.size());
  for (const SequenceTokens& sequence : batch) {
    steps.push_back(state_.begin(sequence.sequence, static_cast<std::int64_t>(sequence.tokens.size())));
  }
  std::vector<std::vector<float>> logits(batch.size());
  for (const Group& group : groups) run(batch, group, steps, probe, logits);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    history_.note(batch[i].sequence, steps[i].position(), batch[i].tokens);
  }
  for (StateStep& step : steps) step.commit();
  return logits;
}

}  // namespace tandem
