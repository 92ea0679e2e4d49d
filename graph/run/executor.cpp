#include "graph/run/executor.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "graph/run/rope.hpp"
#include "graph/run/step_recorder.hpp"
#include "state/block_copy.hpp"

namespace tandem {

/// The actual tensors of one step, seen from one backend: of the whole batch, or of the rows of one part of
/// one sequence (StateStep::parts).
class Executor::StepBindings final : public Bindings {
 public:
  StepBindings(const Executor& executor, const Batch& batch) : executor_(executor), batch_(batch) {
    look_at_all();
  }

  void at(int backend) { backend_ = backend; }
  void look_at_all() {
    rows_ = {0, batch_.tokens};
    sequences_ = batch_.sequences;
    part_ = 0;
  }
  void look_at(const SequenceRows& sequence, int part) {
    const RowRange rows = sequence.state->part(part);
    rows_ = {sequence.range.first_row + rows.first_row, rows.rows};
    alone_ = {sequence.state, {0, rows.rows}};
    sequences_ = {&alone_, 1};
    part_ = part;
  }

  ConstTensor read(ValueId value) const override { return tensor(value); }
  Tensor write(ValueId value) const override { return tensor(value); }
  ConstTensor weight(WeightId weight) const override { return executor_.residents_.get(backend_, weight); }

  std::span<const ConvSegment> conv_segments(int layer) const override {
    conv_.clear();
    for (const SequenceRows& s : sequences_) {
      conv_.push_back(
          {s.range, s.state->conv_in(layer, backend_, part_), s.state->conv_out(layer, backend_, part_)});
    }
    return conv_;
  }
  std::span<const DeltaSegment> delta_segments(int layer) const override {
    delta_.clear();
    for (const SequenceRows& s : sequences_) {
      delta_.push_back({s.range, s.state->recurrent_in(layer, backend_, part_),
                        s.state->recurrent_out(layer, backend_, part_)});
    }
    return delta_;
  }
  std::span<const KvSegment> kv_segments(int layer) const override {
    kv_.clear();
    for (const SequenceRows& s : sequences_) {
      kv_.push_back({s.range, s.state->position(), s.state->pages(layer, backend_)});
    }
    return kv_;
  }
  ConstTensor rope_cos() const override { return rope(executor_.rope_cos_); }
  ConstTensor rope_sin() const override { return rope(executor_.rope_sin_); }

 private:
  ConstTensor rope(const std::vector<Buffer>& tables) const {
    const auto b = static_cast<std::size_t>(backend_);
    return {tables[b].data(), executor_.backends_[b]->info().real,
            Shape{executor_.rope_positions_, executor_.model_.graph().rotary_pairs()}};
  }
  Tensor tensor(ValueId value) const {
    const Tensor all = executor_.tensor(backend_, value, batch_);
    const bool by_token = executor_.model_.graph().value(value).rows == Rows::tokens;
    return by_token ? all.slice_rows(rows_.first_row, rows_.rows) : all;
  }

  const Executor& executor_;
  const Batch& batch_;
  int backend_ = 0;
  RowRange rows_;
  std::span<const SequenceRows> sequences_;
  SequenceRows alone_;
  int part_ = 0;
  mutable std::vector<ConvSegment> conv_;
  mutable std::vector<DeltaSegment> delta_;
  mutable std::vector<KvSegment> kv_;
};

Executor::Executor(const Model& model, const Plan& plan, std::vector<Backend*> backends,
                   const Residents& residents, const StepLimits& limits, std::int64_t context_tokens,
                   bool verify)
    : model_(model),
      plan_(plan),
      backends_(std::move(backends)),
      residents_(residents),
      limits_(limits),
      workspace_(model.graph(), plan, backends_, limits),
      verify_(verify) {
  if (model.graph().rotary_pairs() > 0) make_rope(context_tokens);
  make_staging();
}

/// Reads a second time what has just been copied, if that was asked for.
void Executor::require_same(Backend& backend, const void* there, const void* here, std::size_t bytes,
                            std::string_view what) const {
  if (!verify_) return;
  std::vector<std::byte> again(bytes);
  backend.download(again.data(), there, bytes);
  if (std::memcmp(again.data(), here, bytes) == 0) return;
  fail(ErrorCode::mismatch, "{}: {} ({} bytes) changed on the way (nothing was committed)",
       backend.info().name, what, bytes);
}

void Executor::upload(int backend, void* to, const void* from, std::size_t bytes,
                      std::string_view what) const {
  Backend& target = *backends_[static_cast<std::size_t>(backend)];
  target.upload(to, from, bytes);
  require_same(target, to, from, bytes, what);
}

void Executor::download(int backend, void* to, const void* from, std::size_t bytes) const {
  Backend& source = *backends_[static_cast<std::size_t>(backend)];
  source.download(to, from, bytes);
  require_same(source, from, to, bytes, "the output");
}

void Executor::upload_real(int backend, void* to, std::span<const double> values,
                           std::string_view what) const {
  const Backend& target = *backends_[static_cast<std::size_t>(backend)];
  if (target.info().real == DType::f64) return upload(backend, to, values.data(), values.size_bytes(), what);
  const std::vector<float> rounded(values.begin(), values.end());
  upload(backend, to, rounded.data(), rounded.size() * sizeof(float), what);
}

void Executor::make_rope(std::int64_t context_tokens) {
  const std::int64_t elements = checked_mul(context_tokens, model_.graph().rotary_pairs(), "rotary table");
  rope_positions_ = context_tokens;
  for (Backend* backend : backends_) {
    const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(backend->info().real);
    rope_cos_.push_back(backend->allocate(bytes));
    rope_sin_.push_back(backend->allocate(bytes));
  }
  upload_rope<float>(DType::f32);
  upload_rope<double>(DType::f64);
}

/// To all backends that compute in this type.
template <class Real>
void Executor::upload_rope(DType real) const {
  RopeTable<Real> table;
  for (std::size_t b = 0; b < backends_.size(); ++b) {
    if (backends_[b]->info().real != real) continue;
    if (table.cos.empty())
      table =
          make_rope_table<Real>(rope_positions_, model_.graph().rotary_pairs(), model_.config().rope_theta);
    const std::size_t bytes = table.cos.size() * sizeof(Real);
    upload(static_cast<int>(b), rope_cos_[b].data(), table.cos.data(), bytes, "the rotary table (cos)");
    upload(static_cast<int>(b), rope_sin_[b].data(), table.sin.data(), bytes, "the rotary table (sin)");
  }
}

Tensor Executor::tensor(int backend, ValueId id, const Batch& batch) const {
  const Value& value = model_.graph().value(id);
  const std::int64_t rows = value.rows == Rows::tokens ? batch.tokens : batch.outputs;
  void* data = workspace_.at(backend, id);
  if (value.type == ValueType::index) return {data, DType::i32, Shape{rows}};
  return {data, backends_[static_cast<std::size_t>(backend)]->info().real, Shape{rows, value.width}};
}

void Executor::upload_input(const Plan& plan, const InputData& input) const {
  if (input.host.shape.elements() == 0) return;  // no outputs are wanted
  for (int backend : plan.input_readers[static_cast<std::size_t>(input.value)]) {
    void* to = workspace_.at(backend, input.value);
    const std::string what = "input " + model_.graph().value(input.value).name;
    if (input.host.dtype == DType::i32) {
      upload(backend, to, input.host.data, static_cast<std::size_t>(input.host.bytes()), what);
    } else {
      const float* values = input.host.row<float>(0);
      upload_real(backend, to, std::vector<double>(values, values + input.host.shape.elements()), what);
    }
  }
}

/// What crosses by the plan, or could if layers moved: what one part of the model hands to another.
std::vector<ValueId> Executor::may_cross() const {
  std::vector<ValueId> values;
  std::vector<const Node*> writer(model_.graph().values().size(), nullptr);
  const std::vector<Node>& nodes = model_.graph().nodes();
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (const Crossing& crossing : plan_.crossings[n]) values.push_back(crossing.value);
    for (ValueId id : nodes[n].writes) writer[static_cast<std::size_t>(id)] = &nodes[n];
    for (ValueId id : nodes[n].reads) {
      const Node* from = writer[static_cast<std::size_t>(id)];
      const bool handed = from != nullptr && (from->layer != nodes[n].layer || from->part != nodes[n].part);
      if (plan_.movable() && handed) values.push_back(id);
    }
  }
  return values;
}

/// Page-locked by a backend with memory of its own, if there is one; large enough for any value that crosses.
void Executor::make_staging() {
  std::int64_t bytes = 0;
  const auto element = static_cast<std::int64_t>(size_of(backends_.front()->info().real));
  for (ValueId id : may_cross()) {
    const Value& value = model_.graph().value(id);
    const std::int64_t rows = value.rows == Rows::tokens ? limits_.tokens : limits_.outputs;
    bytes = std::max(bytes, checked_mul(rows * element, value.width, "staging"));
  }
  entrances_.resize(backends_.size());
  if (bytes == 0) return;
  Backend& owner = staging_owner(backends_);
  for (Entrance& entrance : entrances_) {
    for (Staging& staging : entrance.staging)
      staging.memory = owner.allocate_staging(static_cast<std::size_t>(bytes));
  }
}

/// The host stands still until the work is done, and tells for how long if somebody watches.
void Executor::wait(int backend, std::string_view what, StepRecorder* recorder,
                    const std::function<void()>& work) const {
  if (recorder == nullptr) return work();
  const double begin_ms = recorder->now_ms();
  work();
  recorder->waited(backend, what, begin_ms);
}

void Executor::cross(const Crossing& crossing, const Batch& batch) {
  Entrance& entrance = entrances_[static_cast<std::size_t>(crossing.to)];
  Staging& staging = entrance.staging[entrance.turn++ % entrance.staging.size()];
  if (staging.left) wait(crossing.to, "staging memory", batch.recorder, [&] { staging.left->wait(); });
  Backend& source = *backends_[static_cast<std::size_t>(crossing.from)];
  Backend& target = *backends_[static_cast<std::size_t>(crossing.to)];
  const Tensor from = tensor(crossing.from, crossing.value, batch);
  const Tensor to = tensor(crossing.to, crossing.value, batch);
  const auto bytes = static_cast<std::size_t>(from.bytes());
  const auto mark = [&](int backend) { return batch.recorder ? batch.recorder->mark(backend) : nullptr; };
  StepRecorder::Marks received, sent;
  received.begin = mark(crossing.from);
  source.receive(staging.memory.data(), from.data, bytes);
  received.end = mark(crossing.from);
  wait(crossing.from, "value", batch.recorder, [&] { source.record()->wait(); });
  sent.begin = mark(crossing.to);
  target.send(to.data, staging.memory.data(), bytes);
  sent.end = mark(crossing.to);
  staging.left = target.record();
  ++crossings_;
  crossed_bytes_ += bytes;
  if (batch.recorder != nullptr) {
    batch.recorder->crossed(crossing, from.bytes(), std::move(received), std::move(sent));
  }
  if (verify_) require_arrived(crossing, from, to);
}

/// Past the staging memory, in which a wrong bit may be.
void Executor::require_arrived(const Crossing& crossing, const Tensor& from, const Tensor& to) const {
  std::vector<std::byte> left(static_cast<std::size_t>(from.bytes())), arrived(left.size());
  backends_[static_cast<std::size_t>(crossing.from)]->download(left.data(), from.data, left.size());
  backends_[static_cast<std::size_t>(crossing.to)]->download(arrived.data(), to.data, arrived.size());
  if (left == arrived) return;
  fail(ErrorCode::mismatch, "value {} changed on its way from {} to {} (nothing was committed)",
       model_.graph().value(crossing.value).name,
       plan_.backend_names[static_cast<std::size_t>(crossing.from)],
       plan_.backend_names[static_cast<std::size_t>(crossing.to)]);
}

void Executor::forget_marks() {
  for (Entrance& entrance : entrances_) {
    for (Staging& staging : entrance.staging) {
      try {
        if (staging.left) staging.left->wait();
      } catch (const Error&) {
        // It is the mark of the backend that was lost.
      }
      staging.left = nullptr;
    }
  }
}

void Executor::show(const Node& node, int backend, const Batch& batch, const Probe& probe) const {
  for (ValueId id : node.writes) {
    const Tensor value = tensor(backend, id, batch);
    std::vector<std::byte> copy(static_cast<std::size_t>(value.bytes()));
    backends_[static_cast<std::size_t>(backend)]->download(copy.data(), value.data, copy.size());
    probe(node, model_.graph().value(id), ConstTensor(copy.data(), value.dtype, value.shape));
  }
}

/// A recurrent operator leaves a state behind its last row only. Where versions in between are wanted, it
/// runs part after part; everything else takes all rows at once.
void Executor::submit(const Node& node, int backend, const Batch& batch, StepBindings& bindings) const {
  Backend& target = *backends_[static_cast<std::size_t>(backend)];
  const bool in_parts = node.stateful && node.part == Part::gdn &&
                        std::any_of(batch.sequences.begin(), batch.sequences.end(),
                                    [](auto& s) { return s.state->parts() > 1; });
  bindings.at(backend);
  if (!in_parts) {
    bindings.look_at_all();
    target.submit(node.bind(bindings));
    return;
  }
  for (const SequenceRows& sequence : batch.sequences) {
    for (int part = 0; part < sequence.state->parts(); ++part) {
      bindings.look_at(sequence, part);
      target.submit(node.bind(bindings));
    }
  }
}

void Executor::run(const Plan& plan, const Batch& batch, const Probe& probe) {
  StepRecorder* const recorder = batch.recorder;
  BusyBackends busy;  // before the first call, as host memory is read and staging memory used from there on
  for (std::size_t b = 0; b < backends_.size(); ++b) {
    if (plan.uses[b]) busy.add(*backends_[b]);
  }
  if (recorder != nullptr) recorder->begin_run(plan, batch.sequences);
  for (const InputData& input : batch.inputs) upload_input(plan, input);
  StepBindings bindings(*this, batch);
  const std::vector<Node>& nodes = model_.graph().nodes();
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    // The head's rows are those whose logits are wanted; in the middle of a prompt there are none.
    if (batch.outputs == 0 && nodes[n].part == Part::head) continue;
    const int backend = plan.node_backend[n];
    if (recorder != nullptr) recorder->next(nodes[n]);
    for (const Crossing& crossing : plan.crossings[n]) cross(crossing, batch);
    if (recorder != nullptr) recorder->compute(backend);
    submit(nodes[n], backend, batch, bindings);
    if (probe) show(nodes[n], backend, batch, probe);
  }
  if (recorder != nullptr) recorder->end_nodes();
  for (std::size_t b = 0; b < backends_.size(); ++b) {
    if (plan.uses[b])
      wait(static_cast<int>(b), "end of the run", recorder, [&] { backends_[b]->synchronize(); });
  }
  busy.clear();
  if (recorder != nullptr) recorder->end_run();
}

std::vector<float> Executor::read(const Plan& plan, ValueId id, std::int64_t rows) const {
  const Value& value = model_.graph().value(id);
  const int backend = plan.node_backend.back();
  const Backend& source = *backends_[static_cast<std::size_t>(backend)];
  std::vector<float> result(static_cast<std::size_t>(rows * value.width));
  if (result.empty()) return result;
  if (source.info().real == DType::f32) {
    download(backend, result.data(), workspace_.at(backend, id), result.size() * sizeof(float));
    return result;
  }
  std::vector<double> wide(result.size());
  download(backend, wide.data(), workspace_.at(backend, id), wide.size() * sizeof(double));
  std::transform(wide.begin(), wide.end(), result.begin(), [](double x) { return static_cast<float>(x); });
  return result;
}

}  // namespace tandem
