#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/layer_kind.hpp"
#include "core/ops.hpp"
#include "graph/model/gear.hpp"

namespace tandem {

/// The parts of a model that placement can tell apart.
enum class Part : std::uint8_t { embedding, gdn, attention, mlp, head };
inline constexpr int kParts = 5;
std::string_view name(Part part);
/// The part of a layer of this kind for which a sequence has a state.
inline Part state_part(LayerKind kind) { return kind == LayerKind::recurrent ? Part::gdn : Part::attention; }
/// Whether a sequence has a state for this part of a layer.
inline bool has_state(Part part) {
  return part == state_part(LayerKind::recurrent) || part == state_part(LayerKind::attention);
}

/// Layer number of what belongs to no layer.
inline constexpr int kNoLayer = -1;

/// How many rows a value has in a step: one for each token, or one for each token whose logits are wanted.
enum class Rows : std::uint8_t { tokens, outputs };

enum class ValueType : std::uint8_t {
  real,  ///< the backend's activation type
  index  ///< i32
};

/// An activation: [rows, width] of one step. Written once in a step, by one node or as an input.
struct Value {
  std::string name;  ///< "xc", "beta", "hidden": unique within a layer
  int layer = kNoLayer;
  Rows rows = Rows::tokens;
  std::int64_t width = 0;
  ValueType type = ValueType::real;
  bool input = false;  ///< handed in, not computed
};
enum class ValueId : std::int32_t {};

enum class WeightKind : std::uint8_t {
  matrix,  ///< used in its gear
  vector   ///< small: widened exactly to f32
};

struct Weight {
  std::string name;  ///< below the model's prefix, as in a Hugging Face file: "layers.0.mlp.up_proj.weight"
  int layer = kNoLayer;
  WeightKind kind = WeightKind::matrix;
  Shape shape;
  Gear gear = Gear::bf16;  ///< of a matrix: what it is in, and how it is computed with
  /// Whose gear it follows; nothing: it is what it is in the file, and never in 4 bits.
  std::optional<Part> group = std::nullopt;
};
enum class WeightId : std::int32_t {};

/// What a node's operator is made of: the actual tensors when a step runs, shapes without memory when the
/// graph is built. One sequence's segments refer to its state on the backend that runs the node; asking for
/// them where the state is not throws Error(not_resident).
class Bindings {
 public:
  virtual ~Bindings() = default;
  virtual ConstTensor read(ValueId value) const = 0;
  virtual Tensor write(ValueId value) const = 0;
  virtual ConstTensor weight(WeightId weight) const = 0;
  virtual std::span<const ConvSegment> conv_segments(int layer) const = 0;
  virtual std::span<const DeltaSegment> delta_segments(int layer) const = 0;
  virtual std::span<const KvSegment> kv_segments(int layer) const = 0;
  virtual ConstTensor rope_cos() const = 0;  ///< real [positions, rotary / 2]
  virtual ConstTensor rope_sin() const = 0;
};

using Bind = std::function<Op(const Bindings&)>;

/// One operator of the model.
struct Node {
  std::string name;  ///< "in_proj_qkv", "delta_rule"
  int layer = kNoLayer;
  Part part = Part::embedding;
  Bind bind;

  // Found out by running `bind` once, so that they cannot differ from it.
  OpKind kind = OpKind::embed;
  std::vector<ValueId> reads;
  std::vector<ValueId> writes;
  std::vector<WeightId> weights;
  bool stateful = false;
};

/// What to compute: operators in an order that respects their values. Plain data, made once per model; where
/// it runs is the plan's business.
class Graph {
 public:
  /// `rotary_pairs` is half of the rotated elements of a head; 0 without attention.
  explicit Graph(std::int64_t rotary_pairs = 0) : rotary_pairs_(rotary_pairs) {}

  ValueId add_input(std::string name, std::int64_t width, ValueType type, Rows rows = Rows::tokens);
  ValueId add_value(std::string name, int layer, std::int64_t width, Rows rows = Rows::tokens);
  WeightId add_weight(Weight weight);
  /// Runs `bind` with one row a value and no memory to learn and check the operator's shapes. Throws
  /// Error(mismatch) naming the node when they do not fit; Error(invalid_argument) when it reads what nothing
  /// has written or writes twice.
  void add_node(std::string name, int layer, Part part, Bind bind);

  const std::vector<Value>& values() const { return values_; }
  const std::vector<Weight>& weights() const { return weights_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Value& value(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  const Weight& weight(WeightId id) const { return weights_[static_cast<std::size_t>(id)]; }
  std::int64_t rotary_pairs() const { return rotary_pairs_; }

  /// Throws Error(not_found) when there is no such value.
  ValueId find(std::string_view name, int layer = kNoLayer) const;

 private:
  std::int64_t rotary_pairs_;
  std::vector<Value> values_;
  std::vector<bool> written_;
  std::vector<Weight> weights_;
  std::vector<Node> nodes_;
};

}  // namespace tandem
