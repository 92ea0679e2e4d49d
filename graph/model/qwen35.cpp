#include "graph/model/qwen35.hpp"

#include <cmath>

#include "core/error.hpp"

namespace tandem {
namespace {

/// Added to the sum of squares of q and k: hard-coded in the model, independent of rms_norm_eps.
constexpr double kQkNormEps = 1e-6;

/// What all layers of a model are built with.
struct Building {
  Graph& graph;
  const ModelConfig& config;
  const GearOf& gear_of;
};

void require_4_bit_shape(const Weight& weight) {
  if (!is_4_bit(weight.gear)) return;
  if (!weight.group) {
    fail(ErrorCode::invalid_argument, "weight '{}' cannot be in 4 bits, expected f32 or bf16", weight.name);
  }
  if (weight.shape[1] % kQ4Block == 0) return;
  fail(ErrorCode::mismatch, "weight '{}' is {}: 4 bits want a multiple of {} columns; give it another gear",
       weight.name, to_string(weight.shape), kQ4Block);
}

/// Adds the nodes of one layer, or of the ends of the model.
class LayerBuilder {
 public:
  LayerBuilder(const Building& building, int layer, Part part)
      : graph_(building.graph),
        config_(building.config),
        gear_of_(building.gear_of),
        layer_(layer),
        part_(part) {}

  ValueId value(std::string name, std::int64_t width, Rows rows = Rows::tokens) const {
    return graph_.add_value(std::move(name), layer_, width, rows);
  }
  /// A matrix whose gear can be chosen has a group.
  Weight described(const std::string& name, std::int64_t rows, std::int64_t columns,
                   std::optional<Part> group) const {
    Weight weight{prefix() + name, layer_, WeightKind::matrix, Shape{rows, columns}, Gear::bf16, group};
    weight.gear = gear_of_(weight);
    require_4_bit_shape(weight);
    return weight;
  }
  WeightId matrix(const std::string& name, std::int64_t rows, std::int64_t columns,
                  std::optional<Part> group) const {
    return graph_.add_weight(described(name, rows, columns, group));
  }
  WeightId vector(const std::string& name, Shape shape) const {
    return graph_.add_weight({prefix() + name, layer_, WeightKind::vector, shape});
  }
  void node(std::string name, Bind bind) const {
    graph_.add_node(std::move(name), layer_, part_, std::move(bind));
  }

  ValueId linear(const std::string& name, ValueId x, WeightId weight, const std::string& to,
                 Rows rows = Rows::tokens) const {
    const ValueId y = value(to, graph_.weight(weight).shape[0], rows);
    node(name, [=, activations = activations(weight)](const Bindings& b) -> Op {
      return Linear{b.read(x), b.weight(weight), {}, b.write(y), activations};
    });
    return y;
  }
  ValueId project(const std::string& name, ValueId x, std::int64_t rows, const std::string& to) const {
    return linear(last_word(name), x, matrix(name + ".weight", rows, graph_.value(x).width, part_), to);
  }
  /// A projection to a number for each head: too small to be worth 4 bits.
  ValueId project_small(const std::string& name, ValueId x, std::int64_t rows, const std::string& to) const {
    return linear(last_word(name), x, matrix(name + ".weight", rows, graph_.value(x).width, std::nullopt),
                  to);
  }
  /// A projection that ends a block: added to the residual stream.
  ValueId project_residual(const std::string& name, ValueId x, std::int64_t rows, ValueId residual,
                           const std::string& to) const {
    const WeightId weight = matrix(name + ".weight", rows, graph_.value(x).width, part_);
    const ValueId y = value(to, rows);
    node(last_word(name), [=, activations = activations(weight)](const Bindings& b) -> Op {
      return Linear{b.read(x), b.weight(weight), b.read(residual), b.write(y), activations};
    });
    return y;
  }
  ValueId rms_norm(const std::string& name, ValueId x, const std::string& to,
                   Rows rows = Rows::tokens) const {
    const std::int64_t width = graph_.value(x).width;
    const WeightId weight = vector(name + ".weight", Shape{width});
    const ValueId y = value(to, width, rows);
    node(name, [=, eps = config_.rms_norm_eps](const Bindings& b) -> Op {
      return RmsNorm{b.read(x), b.weight(weight), eps, b.write(y)};
    });
    return y;
  }

  const ModelConfig& config() const { return config_; }
  int layer() const { return layer_; }

 private:
  std::string prefix() const { return layer_ == kNoLayer ? "" : "layers." + std::to_string(layer_) + "."; }
  Activations activations(WeightId weight) const {
    return graph_.weight(weight).gear == Gear::q4q8 ? Activations::q8 : Activations::real;
  }
  static std::string last_word(const std::string& name) { return name.substr(name.rfind('.') + 1); }

  Graph& graph_;
  const ModelConfig& config_;
  const GearOf& gear_of_;
  int layer_;
  Part part_;
};

struct GdnProjections {
  ValueId xc, z, b, a;
};

GdnProjections add_gdn_projections(const LayerBuilder& l, ValueId x) {
  const ModelConfig& c = l.config();
  return {l.project("linear_attn.in_proj_qkv", x, c.conv_dim(), "xc"),
          l.project("linear_attn.in_proj_z", x, c.value_dim(), "z"),
          l.project_small("linear_attn.in_proj_b", x, c.linear_num_value_heads, "b"),
          l.project_small("linear_attn.in_proj_a", x, c.linear_num_value_heads, "a")};
}

struct GdnGateValues {
  ValueId beta, g;
};

GdnGateValues add_gdn_gates(const LayerBuilder& l, const GdnProjections& p) {
  const std::int64_t heads = l.config().linear_num_value_heads;
  const WeightId a_log = l.vector("linear_attn.A_log", Shape{heads});
  const WeightId dt_bias = l.vector("linear_attn.dt_bias", Shape{heads});
  const ValueId beta = l.value("beta", heads), g = l.value("g", heads);
  l.node("beta_and_g", [=](const Bindings& b) -> Op {
    return GdnGates{b.read(p.a), b.read(p.b), b.weight(a_log), b.weight(dt_bias), b.write(beta), b.write(g)};
  });
  return {beta, g};
}

ValueId add_gdn_convolution(const LayerBuilder& l, ValueId xc) {
  const ModelConfig& c = l.config();
  const WeightId weight =
      l.vector("linear_attn.conv1d.weight", Shape{c.conv_dim(), c.linear_conv_kernel_dim});
  const ValueId xcv = l.value("xcv", c.conv_dim());
  l.node("convolution_silu", [=, layer = l.layer()](const Bindings& b) -> Op {
    return GdnConv{b.read(xc), b.weight(weight), b.conv_segments(layer), b.write(xcv)};
  });
  return xcv;
}

struct GdnHeads {
  ValueId q, k;
};

/// The split is a view into the convolution's output: q | k | v.
GdnHeads add_gdn_normalisation(const LayerBuilder& l, ValueId xcv) {
  const ModelConfig& c = l.config();
  const std::int64_t heads = c.linear_num_key_heads, dim = c.linear_key_head_dim, keys = c.key_dim();
  const ValueId q = l.value("q", keys), k = l.value("k", keys);
  l.node("split_normalise_qk", [=](const Bindings& b) -> Op {
    const ConstTensor x = b.read(xcv);
    return GdnQkNorm{x.columns(0, keys).view_rows(heads, dim),
                     x.columns(keys, keys).view_rows(heads, dim),
                     kQkNormEps,
                     1.0 / std::sqrt(static_cast<double>(dim)),
                     b.write(q).view_rows(heads, dim),
                     b.write(k).view_rows(heads, dim)};
  });
  return {q, k};
}

ValueId add_gdn_recurrence(const LayerBuilder& l, const GdnHeads& heads, ValueId xcv,
                           const GdnGateValues& gates) {
  const ModelConfig& c = l.config();
  const std::int64_t key_heads = c.linear_num_key_heads, key_dim = c.linear_key_head_dim;
  const std::int64_t value_heads = c.linear_num_value_heads, value_dim = c.linear_value_head_dim;
  const ValueId on = l.value("on", c.value_dim());
  l.node("delta_rule", [=, first = 2 * c.key_dim(), layer = l.layer()](const Bindings& b) -> Op {
    return GdnDelta{b.read(heads.q).view_rows(key_heads, key_dim),
                    b.read(heads.k).view_rows(key_heads, key_dim),
                    b.read(xcv).columns(first, value_heads * value_dim).view_rows(value_heads, value_dim),
                    b.read(gates.g),
                    b.read(gates.beta),
                    b.delta_segments(layer),
                    b.write(on).view_rows(value_heads, value_dim)};
  });
  return on;
}

ValueId add_gdn_gated_norm(const LayerBuilder& l, ValueId on, ValueId z) {
  const ModelConfig& c = l.config();
  const std::int64_t heads = c.linear_num_value_heads, dim = c.linear_value_head_dim;
  const WeightId weight = l.vector("linear_attn.norm.weight", Shape{dim});
  const ValueId onn = l.value("onn", c.value_dim());
  l.node("gated_rms_norm", [=, eps = c.rms_norm_eps](const Bindings& b) -> Op {
    return GdnGatedNorm{b.read(on).view_rows(heads, dim), b.read(z).view_rows(heads, dim), b.weight(weight),
                        eps, b.write(onn).view_rows(heads, dim)};
  });
  return onn;
}

/// All of a GDN mixer but its output projection.
ValueId add_gdn(const LayerBuilder& l, ValueId x) {
  const GdnProjections projections = add_gdn_projections(l, x);
  const GdnGateValues gates = add_gdn_gates(l, projections);
  const ValueId xcv = add_gdn_convolution(l, projections.xc);
  const GdnHeads heads = add_gdn_normalisation(l, xcv);
  const ValueId on = add_gdn_recurrence(l, heads, xcv, gates);
  return add_gdn_gated_norm(l, on, projections.z);
}

/// Norm and rotation of `heads` heads of x, which lie head_stride apart.
ValueId add_head_norm_rope(const LayerBuilder& l, ValueId x, std::int64_t heads, std::int64_t head_stride,
                           ValueId positions, const std::string& which) {
  const std::int64_t dim = l.config().head_dim;
  const WeightId weight = l.vector("self_attn." + which + "_norm.weight", Shape{dim});
  const ValueId y = l.value(which + "_rotated", heads * dim);
  l.node(which + "_norm_rope", [=, eps = l.config().rms_norm_eps](const Bindings& b) -> Op {
    ConstTensor rows = b.read(x);
    rows.shape = Shape{rows.rows(), heads, dim};
    return HeadNormRope{rows,         head_stride,  b.weight(weight),  eps,
                        b.rope_cos(), b.rope_sin(), b.read(positions), b.write(y).view_rows(heads, dim)};
  });
  return y;
}

/// All of a full-attention mixer but its output projection.
ValueId add_attention(const LayerBuilder& l, ValueId x, ValueId positions) {
  const ModelConfig& c = l.config();
  const std::int64_t heads = c.num_attention_heads, kv_heads = c.num_key_value_heads, dim = c.head_dim;
  const std::int64_t page_tokens = KvDims{}.page_tokens;
  const int layer = l.layer();
  const ValueId q_gate =
      l.project("self_attn.q_proj", x, 2 * c.q_dim(), "q_gate");  // per head: q, then its gate
  const ValueId k_in = l.project("self_attn.k_proj", x, c.kv_dim(), "k_in");
  const ValueId v = l.project("self_attn.v_proj", x, c.kv_dim(), "v");
  const ValueId q = add_head_norm_rope(l, q_gate, heads, 2 * dim, positions, "q");
  const ValueId k = add_head_norm_rope(l, k_in, kv_heads, dim, positions, "k");
  l.node("kv_append", [=](const Bindings& b) -> Op {
    return KvAppend{b.read(k).view_rows(kv_heads, dim), b.read(v).view_rows(kv_heads, dim), page_tokens,
                    b.kv_segments(layer)};
  });
  const ValueId o = l.value("o", c.q_dim());
  l.node("attention", [=, scale = 1.0 / std::sqrt(static_cast<double>(dim))](const Bindings& b) -> Op {
    return Attention{b.read(q).view_rows(heads, dim), kv_heads, scale, page_tokens, b.kv_segments(layer),
                     b.write(o).view_rows(heads, dim)};
  });
  const ValueId gated = l.value("o_gated", c.q_dim());
  l.node("sigmoid_gate", [=](const Bindings& b) -> Op {
    ConstTensor gate = b.read(q_gate).columns(dim, (2 * heads - 1) * dim);
    gate.shape = Shape{gate.rows(), heads, dim};
    return SigmoidGate{b.read(o).view_rows(heads, dim), gate, 2 * dim, b.write(gated).view_rows(heads, dim)};
  });
  return gated;
}

ValueId add_mlp(const Building& building, int layer, ValueId hidden) {
  const ModelConfig& config = building.config;
  const LayerBuilder l(building, layer, Part::mlp);
  const ValueId x = l.rms_norm("post_attention_layernorm", hidden, "mlp_in");
  const ValueId gate = l.project("mlp.gate_proj", x, config.intermediate_size, "gate");
  const ValueId up = l.project("mlp.up_proj", x, config.intermediate_size, "up");
  const ValueId product = l.value("gated_up", config.intermediate_size);
  l.node("silu_mul", [=](const Bindings& b) -> Op {
    return SiluMul{b.read(gate), b.read(up), b.write(product)};
  });
  return l.project_residual("mlp.down_proj", product, config.hidden_size, hidden, "hidden");
}

ValueId add_layer(const Building& building, int layer, ValueId hidden, ValueId positions) {
  const ModelConfig& config = building.config;
  const LayerKind kind = config.layer_types[static_cast<std::size_t>(layer)];
  const bool recurrent = kind == LayerKind::recurrent;
  const LayerBuilder l(building, layer, state_part(kind));
  const ValueId x = l.rms_norm("input_layernorm", hidden, "mixer_in");
  const ValueId mixed = recurrent ? add_gdn(l, x) : add_attention(l, x, positions);
  const ValueId after = l.project_residual(recurrent ? "linear_attn.out_proj" : "self_attn.o_proj", mixed,
                                           config.hidden_size, hidden, "after_mixer");
  return add_mlp(building, layer, after);
}

/// The embedding's weight, or one of its own.
WeightId head_weight(const LayerBuilder& l, Graph& graph, WeightId embedding) {
  const Weight head =
      l.described("lm_head.weight", l.config().vocab_size, l.config().hidden_size, Part::head);
  if (l.config().tie_word_embeddings && head.gear == graph.weight(embedding).gear) return embedding;
  return graph.add_weight(head);
}

void add_head(const Building& building, ValueId hidden, WeightId embedding) {
  Graph& graph = building.graph;
  const LayerBuilder l(building, kNoLayer, Part::head);
  const ValueId rows = graph.add_input("output_rows", 1, ValueType::index, Rows::outputs);
  const ValueId picked = l.value("picked", building.config.hidden_size, Rows::outputs);
  l.node("gather_outputs", [=](const Bindings& b) -> Op {
    return GatherRows{b.read(hidden), b.read(rows), b.write(picked)};
  });
  const ValueId final_norm = l.rms_norm("norm", picked, "final", Rows::outputs);
  l.linear("lm_head", final_norm, head_weight(l, graph, embedding), "logits", Rows::outputs);
}

}  // namespace

Gear published_gear(const Weight&) { return Gear::bf16; }

GearOf gears_of(const Gears& asked, GearOf otherwise) {
  return [=](const Weight& weight) {
    const std::optional<Gear> gear = weight.group ? asked.of(weight.layer, *weight.group) : std::nullopt;
    return gear ? *gear : otherwise(weight);
  };
}

Graph build_model_graph(const ModelConfig& config, const GearOf& gear_of) {
  Graph graph(config.rotary_dim / 2);
  const Building building{graph, config, gear_of};
  const ValueId ids = graph.add_input("ids", 1, ValueType::index);
  const ValueId positions = graph.add_input("positions", 1, ValueType::index);
  const LayerBuilder l(building, kNoLayer, Part::embedding);
  const WeightId embedding =
      l.matrix("embed_tokens.weight", config.vocab_size, config.hidden_size, std::nullopt);
  ValueId hidden = l.value("hidden", config.hidden_size);
  l.node("embed", [=](const Bindings& b) -> Op {
    return Embed{b.read(ids), b.weight(embedding), b.write(hidden)};
  });
  for (int layer = 0; layer < static_cast<int>(config.num_hidden_layers); ++layer) {
    hidden = add_layer(building, layer, hidden, positions);
  }
  add_head(building, hidden, embedding);
  return graph;
}

Graph build_gdn_graph(const ModelConfig& config, int layer, const GearOf& gear_of) {
  Graph graph;
  const ValueId x = graph.add_input("x", config.hidden_size, ValueType::real);
  const LayerBuilder l({graph, config, gear_of}, layer, Part::gdn);
  l.project("linear_attn.out_proj", add_gdn(l, x), config.hidden_size, "out");
  return graph;
}

StateGeometry state_geometry(const ModelConfig& config, DType real) {
  StateGeometry geometry;
  geometry.layers = config.layer_types;
  geometry.recurrent = {config.linear_num_value_heads, config.linear_key_head_dim,
                        config.linear_value_head_dim, config.conv_dim(), config.linear_conv_kernel_dim};
  geometry.kv.kv_heads = config.num_key_value_heads;
  geometry.kv.head_dim = config.head_dim;
  geometry.real = real;
  return geometry;
}

}  // namespace tandem
