#include "graph/model/graph.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tandem {
namespace {

DType symbolic_type(ValueType type) { return type == ValueType::real ? DType::f32 : DType::i32; }

/// Hands out shapes of one row without memory, and notes what was asked for.
class Recorder final : public Bindings {
 public:
  explicit Recorder(const Graph& graph) : graph_(graph) {}

  ConstTensor read(ValueId id) const override {
    note(reads, id);
    return symbolic(id);
  }
  Tensor write(ValueId id) const override {
    note(writes, id);
    return symbolic(id);
  }
  ConstTensor weight(WeightId id) const override {
    note(weights, id);
    const Weight& weight = graph_.weight(id);
    const bool is_matrix = weight.kind == WeightKind::matrix;
    return {nullptr, is_matrix ? weight_dtype(weight.gear) : DType::f32, weight.shape};
  }
  std::span<const ConvSegment> conv_segments(int) const override {
    return stateful = true, std::span<ConvSegment>();
  }
  std::span<const DeltaSegment> delta_segments(int) const override {
    return stateful = true, std::span<DeltaSegment>();
  }
  std::span<const KvSegment> kv_segments(int) const override {
    return stateful = true, std::span<KvSegment>();
  }
  ConstTensor rope_cos() const override { return {nullptr, DType::f32, Shape{1, graph_.rotary_pairs()}}; }
  ConstTensor rope_sin() const override { return rope_cos(); }

  mutable std::vector<ValueId> reads, writes;
  mutable std::vector<WeightId> weights;
  mutable bool stateful = false;

 private:
  template <class Id>
  static void note(std::vector<Id>& ids, Id id) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  Tensor symbolic(ValueId id) const {
    const Value& value = graph_.value(id);
    if (value.type == ValueType::index) return {nullptr, DType::i32, Shape{1}};
    return {nullptr, symbolic_type(value.type), Shape{1, value.width}};
  }

  const Graph& graph_;
};

}  // namespace

std::string_view name(Part part) {
  switch (part) {
    case Part::embedding:
      return "embedding";
    case Part::gdn:
      return "gdn";
    case Part::attention:
      return "attention";
    case Part::mlp:
      return "mlp";
    case Part::head:
      return "head";
  }
  return "?";
}

ValueId Graph::add_input(std::string name, std::int64_t width, ValueType type, Rows rows) {
  values_.push_back({std::move(name), kNoLayer, rows, width, type, true});
  written_.push_back(true);
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId Graph::add_value(std::string name, int layer, std::int64_t width, Rows rows) {
  values_.push_back({std::move(name), layer, rows, width, ValueType::real, false});
  written_.push_back(false);
  return static_cast<ValueId>(values_.size() - 1);
}

WeightId Graph::add_weight(Weight weight) {
  weights_.push_back(std::move(weight));
  return static_cast<WeightId>(weights_.size() - 1);
}

void Graph::add_node(std::string name, int layer, Part part, Bind bind) {
  const Recorder recorder(*this);
  const Op op = bind(recorder);
  try {
    validate_shapes(op, DType::f32);
  } catch (const Error& error) {
    fail(error.code(), "graph node {} of layer {}: {}", name, layer, error.what());
  }
  for (ValueId id : recorder.reads) {
    if (!written_[static_cast<std::size_t>(id)]) {
      fail(ErrorCode::invalid_argument,
           "graph node {} of layer {} reads '{}', which no node before it writes", name, layer,
           value(id).name);
    }
  }
  for (ValueId id : recorder.writes) {
    if (written_[static_cast<std::size_t>(id)]) {
      fail(ErrorCode::invalid_argument, "graph node {} of layer {} writes '{}' a second time", name, layer,
           value(id).name);
    }
    written_[static_cast<std::size_t>(id)] = true;
  }
  nodes_.push_back({std::move(name), layer, part, std::move(bind), kind_of(op), recorder.reads,
                    recorder.writes, recorder.weights, recorder.stateful});
}

ValueId Graph::find(std::string_view name, int layer) const {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].name == name && values_[i].layer == layer) return static_cast<ValueId>(i);
  }
  fail(ErrorCode::not_found, "the graph has no value '{}' in layer {}", name, layer);
}

}  // namespace tandem
