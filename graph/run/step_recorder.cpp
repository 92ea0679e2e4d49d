#include "graph/run/step_recorder.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "state/layer_state.hpp"

namespace tandem {

void StepWatch::residency(const ResidencyEvent& event) {
  const double end_ms = now_ms();
  const std::lock_guard lock(happened_mutex_);
  happened_.emplace_back(event, TimeSpan{end_ms - event.milliseconds, end_ms});
}

std::optional<StepWatch::Happened> StepWatch::next() {
  const std::lock_guard lock(happened_mutex_);
  if (happened_.empty()) return {};
  Happened first = std::move(happened_.front());
  happened_.pop_front();
  return first;
}

void StepWatch::tell_all() noexcept {
  try {
    while (const std::optional<Happened> each = next()) observer_.residency(each->first, each->second);
  } catch (...) {
    const std::lock_guard lock(happened_mutex_);
    if (!thrown_) thrown_ = std::current_exception();
  }
}

void StepWatch::tell() noexcept {
  const std::lock_guard lock(telling_);
  tell_all();
}

void StepWatch::rethrow() {
  const std::lock_guard lock(happened_mutex_);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void StepWatch::tell_step(ObservedStep& step) {
  const std::lock_guard lock(telling_);
  tell_all();
  rethrow();
  step.number = committed_;
  step.time.end_ms = now_ms();
  observer_.step(step);
  ++committed_;
}

StepRecorder::StepRecorder(StepWatch& watch) : watch_(watch) { step_.time.begin_ms = now_ms(); }

void StepRecorder::add_sequence(SequenceId id, std::int64_t tokens, std::int64_t outputs) {
  ObservedSequence sequence;
  sequence.sequence = id;
  sequence.position = watch_.state_.tokens(id);
  sequence.tokens = tokens;
  sequence.outputs = outputs;
  sequence.version_read = watch_.state_.versions(id).back().number;
  sequence.homes = watch_.state_.homes(id);
  step_.sequences.push_back(std::move(sequence));
}

void StepRecorder::add_checksums(ObservedSequence& sequence, const StateStep& step, int part) const {
  for (int layer = 0; layer < static_cast<int>(sequence.homes.size()); ++layer) {
    const auto read = [&] { return checksum(export_layer(step.view(layer, part))); };
    sequence.checksums.push_back(read());
    if (!watch_.verify_ || read() == sequence.checksums.back()) continue;
    fail(ErrorCode::mismatch,
         "the state of layer {} changed on its way to the host, for its checksum (nothing was committed)",
         layer);
  }
}

void StepRecorder::tell(std::span<const StateStep> steps, std::span<const int> parts) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    ObservedSequence& sequence = step_.sequences[i];
    const VersionInfo written = steps[i].version(parts[i] - 1);
    sequence.accepted = written.tokens - sequence.position;
    sequence.version_written = written.number;
    if (watch_.observer_.wants_checksums()) add_checksums(sequence, steps[i], parts[i] - 1);
  }
  watch_.tell_step(step_);
}

void StepRecorder::begin_run(const Plan& plan, std::span<const SequenceRows> sequences) {
  run_ = {};
  node_ = nullptr;
  parts_.clear();
  transfers_.clear();
  for (const SequenceRows& rows : sequences) {
    const auto found = std::find_if(step_.sequences.begin(), step_.sequences.end(),
                                    [&](auto& s) { return s.sequence == rows.state->sequence(); });
    run_.sequences.push_back(static_cast<std::size_t>(found - step_.sequences.begin()));
  }
  const std::vector<Backend*>& backends = watch_.backends_;
  run_begin_ms_.assign(backends.size(), 0);
  run_begin_.clear();
  for (std::size_t b = 0; b < backends.size(); ++b) {
    // In this order what a device did is never laid after what the host did next.
    run_begin_ms_[b] = now_ms();
    run_begin_.push_back(plan.uses[b] ? backends[b]->record() : nullptr);
  }
}

void StepRecorder::next(const Node& node) {
  if (node_ != nullptr && (node_->layer != node.layer || node_->part != node.part)) end_nodes();
  node_ = &node;
}

void StepRecorder::compute(int backend) {
  if (!parts_.empty() && !parts_.back().marks.end) return;
  parts_.push_back({{node_->layer, node_->part, backend, {}}, {mark(backend), nullptr}});
}

void StepRecorder::end_nodes() {
  PendingPart& last = parts_.back();
  last.marks.end = mark(last.part.backend);
}

void StepRecorder::crossed(const Crossing& crossing, std::int64_t bytes, Marks received, Marks sent) {
  const Value& value = watch_.graph_.value(crossing.value);
  ObservedTransfer transfer;
  transfer.value = value.name;
  transfer.layer = node_->layer;
  transfer.part = node_->part;
  transfer.from = crossing.from;
  transfer.to = crossing.to;
  transfer.rows = value.rows;
  transfer.row_bytes = value.width * static_cast<std::int64_t>(size_of(at(crossing.from).info().real));
  transfer.bytes = bytes;
  transfers_.push_back({std::move(transfer), std::move(received), std::move(sent)});
}

void StepRecorder::waited(int backend, std::string_view what, double begin_ms) {
  run_.waits.push_back({backend, what, {begin_ms, now_ms()}});
}

TimeSpan StepRecorder::resolve(int backend, const Marks& marks) const {
  const auto b = static_cast<std::size_t>(backend);
  const auto on_host = [&](Event& event) { return run_begin_ms_[b] + event.ms_since(*run_begin_[b]); };
  return {on_host(*marks.begin), on_host(*marks.end)};
}

void StepRecorder::end_run() {
  for (PendingPart& pending : parts_) {
    pending.part.time = resolve(pending.part.backend, pending.marks);
    run_.parts.push_back(pending.part);
  }
  for (PendingTransfer& pending : transfers_) {
    pending.transfer.received = resolve(pending.transfer.from, pending.received);
    pending.transfer.sent = resolve(pending.transfer.to, pending.sent);
    run_.transfers.push_back(std::move(pending.transfer));
  }
  parts_.clear();
  transfers_.clear();
  step_.runs.push_back(std::move(run_));
}

}  // namespace tandem
