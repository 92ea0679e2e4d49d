#include "graph/step_recorder.hpp"

#include <algorithm>

#include "state/layer_state.hpp"

namespace tandem {

double StepRecorder::now_ms() const {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
}

void StepRecorder::begin_step() {
  step_ = {};
  step_.number = committed_;
  step_.time.begin_ms = now_ms();
}

void StepRecorder::add_sequence(SequenceId id, std::int64_t tokens, std::int64_t outputs) {
  ObservedSequence sequence;
  sequence.sequence = id;
  sequence.position = state_.tokens(id);
  sequence.tokens = tokens;
  sequence.outputs = outputs;
  sequence.version_read = state_.versions(id).back().number;
  sequence.homes = state_.homes(id);
  step_.sequences.push_back(std::move(sequence));
}

void StepRecorder::add_checksums(ObservedSequence& sequence) const {
  for (int layer = 0; layer < static_cast<int>(sequence.homes.size()); ++layer) {
    sequence.checksums.push_back(checksum(export_layer(state_, sequence.sequence, layer)));
  }
}

void StepRecorder::end_step() {
  ++committed_;
  step_.time.end_ms = now_ms();
  for (ObservedSequence& sequence : step_.sequences) {
    sequence.version_written = state_.versions(sequence.sequence).back().number;
    if (observer_.wants_checksums()) add_checksums(sequence);
  }
  observer_.step(step_);
}

void StepRecorder::residency(const ResidencyEvent& event) {
  const double end_ms = now_ms();
  observer_.residency(event, {end_ms - event.milliseconds, end_ms});
}

void StepRecorder::begin_run(std::span<const SequenceRows> sequences) {
  run_ = {};
  node_ = nullptr;
  parts_.clear();
  transfers_.clear();
  for (const SequenceRows& rows : sequences) {
    const auto found = std::find_if(step_.sequences.begin(), step_.sequences.end(),
                                    [&](auto& s) { return s.sequence == rows.state->sequence(); });
    run_.sequences.push_back(static_cast<std::size_t>(found - step_.sequences.begin()));
  }
  run_begin_ms_.clear();
  run_begin_.clear();
  for (Backend* backend : backends_) {
    // In this order what a device did is never laid after what the host did next.
    run_begin_ms_.push_back(now_ms());
    run_begin_.push_back(backend->record());
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
  const Value& value = graph_.value(crossing.value);
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
