#include "graph/run/scheduler.hpp"

#include <algorithm>
#include <map>

#include "core/error.hpp"
#include "graph/run/step_recorder.hpp"

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

void Scheduler::run(OpenBatch& open, const Group& group, const Probe& probe) {
  std::vector<SequenceRows> sequences;
  Rows32 rows;
  for (std::size_t i : group.members) {
    const SequenceTokens& sequence = open.batch_[i];
    const auto count = static_cast<std::int64_t>(sequence.tokens.size());
    sequences.push_back({&open.steps_[i], {static_cast<std::int64_t>(rows.ids.size()), count}});
    rows.add(sequence, open.steps_[i].position());
  }
  const InputData inputs[] = {input(ids_, rows.ids), input(positions_, rows.positions),
                              input(output_rows_, rows.outputs)};
  const auto outputs = static_cast<std::int64_t>(rows.outputs.size());
  executor_.run(
      *group.plan,
      {static_cast<std::int64_t>(rows.ids.size()), outputs, sequences, inputs, open.recorder_.get()}, probe);

  const std::vector<float> all = executor_.read(*group.plan, logits_, outputs);
  auto next = all.begin();
  for (std::size_t i : group.members) {
    const auto end = next + output_count(open.batch_[i]) * vocab_size_;
    open.logits_[i].assign(next, end);
    next = end;
  }
}

/// The parts of a step that hold its first `tokens` tokens.
int Scheduler::accepted_parts(const SequenceTokens& sequence, const StateStep& step,
                              std::int64_t tokens) const {
  const std::int64_t first = step.part(0).rows;
  if (tokens < first || tokens > step.tokens()) {
    fail(ErrorCode::invalid_argument,
         "step: {} of {} tokens of sequence {} accepted; it keeps versions after {} to {} of them", tokens,
         step.tokens(), to_string(sequence.sequence), first, step.tokens());
  }
  return static_cast<int>(tokens - first) + 1;
}

std::vector<bool> Scheduler::uses(std::span<const SequenceTokens> batch) {
  check(batch);
  std::vector<bool> used(plan_.backend_names.size(), false);
  for (const Group& group : groups(batch)) {
    for (std::size_t b = 0; b < used.size(); ++b) used[b] = used[b] || group.plan->uses[b];
  }
  return used;
}

std::unique_ptr<StepRecorder> Scheduler::begin_record(std::span<const SequenceTokens> batch) const {
  auto recorder = std::make_unique<StepRecorder>(*watch_);
  for (const SequenceTokens& sequence : batch) {
    recorder->add_sequence(sequence.sequence, std::ssize(sequence.tokens), output_count(sequence));
  }
  return recorder;
}

OpenBatch Scheduler::begin(std::span<const SequenceTokens> batch) {
  check(batch);
  OpenBatch open;
  open.batch_ = batch;
  open.groups_ = groups(batch);
  for (const Group& group : open.groups_) require_weights(batch, group);
  open.steps_.reserve(batch.size());
  for (const SequenceTokens& sequence : batch) {
    const auto tokens = static_cast<std::int64_t>(sequence.tokens.size());
    open.steps_.push_back(state_.begin(sequence.sequence, tokens, sequence.versions));
    history_.reserve(sequence.sequence, open.steps_.back().position() + tokens);
  }
  open.logits_.resize(batch.size());
  if (watch_ != nullptr) open.recorder_ = begin_record(batch);
  return open;
}

void Scheduler::run(OpenBatch& open, const Probe& probe, const Accept& accept) {
  for (const Group& group : open.groups_) run(open, group, probe);
  for (std::size_t i = 0; i < open.steps_.size(); ++i) {
    const StateStep& step = open.steps_[i];
    open.parts_.push_back(accept ? accepted_parts(open.batch_[i], step, accept(i, open.logits_[i]))
                                 : step.parts());
  }
  if (open.recorder_) open.recorder_->tell(open.steps_, open.parts_);
}

std::vector<std::vector<float>> Scheduler::commit(OpenBatch& open) noexcept {
  for (std::size_t i = 0; i < open.steps_.size(); ++i) {
    StateStep& step = open.steps_[i];
    const RowRange last = step.part(open.parts_[i] - 1);
    const auto count = static_cast<std::size_t>(last.first_row + last.rows);
    history_.note(step.sequence(), step.position(), open.batch_[i].tokens.first(count));
    step.commit(open.parts_[i]);
  }
  open.clear();
  return std::move(open.logits_);
}

std::vector<std::vector<float>> Scheduler::step(std::span<const SequenceTokens> batch, const Probe& probe,
                                                const Accept& accept, OwnedLock* lock) {
  OpenBatch open = begin(batch);
  {
    const Released released(lock);
    run(open, probe, accept);
  }
  return commit(open);
}

}  // namespace tandem
