#include "tests/gguf/tiny_gguf.hpp"

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/q4.hpp"
#include "core/q4_quantizer.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/model/synthetic.hpp"
#include "graph/model/widen.hpp"
#include "tests/io/io_test_support.hpp"

namespace tandem::test {
namespace {

const std::map<std::string, std::string> kNames = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "post_attention_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"linear_attn.in_proj_qkv.weight", "attn_qkv.weight"},
    {"linear_attn.in_proj_z.weight", "attn_gate.weight"},
    {"linear_attn.in_proj_a.weight", "ssm_alpha.weight"},
    {"linear_attn.in_proj_b.weight", "ssm_beta.weight"},
    {"linear_attn.conv1d.weight", "ssm_conv1d.weight"},
    {"linear_attn.A_log", "ssm_a"},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.norm.weight", "ssm_norm.weight"},
    {"linear_attn.out_proj.weight", "ssm_out.weight"},
};

struct Matrix {
  std::int64_t rows, columns;
  std::vector<float> values;

  float& at(std::int64_t row, std::int64_t column) {
    return values[static_cast<std::size_t>(row * columns + column)];
  }
};

/// Where element `i` of a run of value heads of `size` comes from: grouped, [key][r], for a place in tiled.
std::int64_t grouped(const ModelConfig& config, std::int64_t i, std::int64_t size) {
  const std::int64_t keys = config.linear_num_key_heads, share = config.linear_num_value_heads / keys;
  const std::int64_t head = i / size, key = head % keys, r = head / keys;
  return (key * share + r) * size + i % size;
}

Matrix with_tiled_rows(const ModelConfig& config, Matrix from, std::int64_t first, std::int64_t size) {
  Matrix to = from;
  for (std::int64_t row = first; row < from.rows; ++row) {
    for (std::int64_t c = 0; c < from.columns; ++c) {
      to.at(row, c) = from.at(first + grouped(config, row - first, size), c);
    }
  }
  return to;
}

Matrix with_tiled_columns(const ModelConfig& config, Matrix from) {
  Matrix to = from;
  for (std::int64_t row = 0; row < from.rows; ++row) {
    for (std::int64_t c = 0; c < from.columns; ++c) {
      to.at(row, c) = from.at(row, grouped(config, c, config.linear_value_head_dim));
    }
  }
  return to;
}

Matrix converted(const ModelConfig& config, const std::string& tensor, Matrix m) {
  const auto ends_with = [&](std::string_view end) { return tensor.ends_with(end); };
  const std::int64_t dim = config.linear_value_head_dim;
  if (ends_with("attn_qkv.weight") || ends_with("ssm_conv1d.weight")) {
    m = with_tiled_rows(config, std::move(m), 2 * config.key_dim(), dim);
  } else if (ends_with("attn_gate.weight")) {
    m = with_tiled_rows(config, std::move(m), 0, dim);
  } else if (ends_with("ssm_alpha.weight") || ends_with("ssm_beta.weight")) {
    m = with_tiled_rows(config, std::move(m), 0, 1);
  } else if (ends_with("ssm_a") || ends_with("ssm_dt.bias")) {
    m.rows = m.columns, m.columns = 1;
    m = with_tiled_rows(config, std::move(m), 0, 1);
  } else if (ends_with("ssm_out.weight")) {
    m = with_tiled_columns(config, std::move(m));
  }
  for (float& value : m.values) {
    if (ends_with("ssm_a")) value = -std::exp(value);
    if (ends_with("norm.weight") && !ends_with("ssm_norm.weight")) value += 1.0f;
  }
  return m;
}

std::string f32_bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string bf16_bytes(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) bytes += raw(round_to_bf16(value));
  return bytes;
}

std::string q4_0_bytes(const Matrix& m) {
  const HostTensor q4 = quantize_q4(ConstTensor(m.values.data(), DType::f32, Shape{m.rows, m.columns}));
  const Q4Matrix parts = q4_matrix(q4.view);
  std::string bytes;
  for (std::int64_t b = 0; b < m.rows * parts.row_blocks; ++b) {
    bytes += raw(parts.scales[b]);
    bytes.append(reinterpret_cast<const char*>(parts.levels) + b * 16, 16);
  }
  return bytes;
}

std::string q8_0_bytes(const Matrix& m) {
  std::string bytes;
  for (std::size_t b = 0; b < m.values.size(); b += kQ4Block) {
    std::int8_t levels[kQ4Block];
    const f16 scale = num::round_to_f16(num::quantize_q8(m.values.data() + b, levels));
    bytes += raw(scale);
    bytes.append(reinterpret_cast<const char*>(levels), sizeof levels);
  }
  return bytes;
}

void add_sizes(const ModelConfig& c, int extra_layers, GgufWriter& writer) {
  const auto key = [&](std::string_view name, std::int64_t value) {
    writer.u32("qwen35." + std::string(name), static_cast<std::uint32_t>(value));
  };
  writer.string("general.architecture", "qwen35");
  key("block_count", c.num_hidden_layers + extra_layers);
  key("context_length", c.max_position_embeddings);
  key("embedding_length", c.hidden_size);
  key("feed_forward_length", c.intermediate_size);
  key("attention.head_count", c.num_attention_heads);
  key("attention.head_count_kv", c.num_key_value_heads);
  key("attention.key_length", c.head_dim);
  key("attention.value_length", c.head_dim);
  key("rope.dimension_count", c.rotary_dim);
  key("ssm.conv_kernel", c.linear_conv_kernel_dim);
  key("ssm.state_size", c.linear_key_head_dim);
  key("ssm.group_count", c.linear_num_key_heads);
  key("ssm.time_step_rank", c.linear_num_value_heads);
  key("ssm.inner_size", c.value_dim());
  if (extra_layers > 0) key("nextn_predict_layers", extra_layers);
  writer.f32("qwen35.attention.layer_norm_rms_epsilon", static_cast<float>(c.rms_norm_eps));
  writer.f32("qwen35.rope.freq_base", static_cast<float>(c.rope_theta));
}

void add_tokenizer(const ModelConfig& config, GgufWriter& writer) {
  const auto path = data_folder("TANDEM_MODELS") / "tiny" / "tokenizer.json";
  const nlohmann::json json = nlohmann::json::parse(std::ifstream(path));
  std::vector<std::string> tokens(static_cast<std::size_t>(config.vocab_size), "[PAD]");
  std::vector<std::int32_t> types(tokens.size(), 5);
  const auto add = [&](std::size_t id, const std::string& token, std::int32_t type) {
    tokens.at(id) = token;
    types.at(id) = type;
  };
  for (const auto& [token, id] : json["model"]["vocab"].items()) add(id.get<std::size_t>(), token, 1);
  for (const auto& added : json["added_tokens"]) add(added["id"], added["content"], added["special"] ? 3 : 4);
  std::vector<std::string> merges;
  for (const auto& merge : json["model"]["merges"]) {
    merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  writer.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "qwen35");
  writer.strings("tokenizer.ggml.tokens", tokens).i32s("tokenizer.ggml.token_type", types);
  writer.strings("tokenizer.ggml.merges", merges);
  for (const std::int64_t id : config.eos_token_ids) {
    writer.u32("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(id));
  }
}

std::string gguf_name(const std::string& weight) {
  constexpr std::string_view kLayers = "layers.";
  if (!weight.starts_with(kLayers)) return kNames.at(weight);
  const std::size_t dot = weight.find('.', kLayers.size());
  return "blk." + weight.substr(kLayers.size(), dot + 1 - kLayers.size()) + kNames.at(weight.substr(dot + 1));
}

}  // namespace

GgufWriter as_gguf(const Model& model, const TinyGguf& options) {
  GgufWriter writer;
  add_sizes(model.config(), options.extra_layers, writer);
  if (options.tokenizer) add_tokenizer(model.config(), writer);
  for (std::size_t i = 0; i < model.graph().weights().size(); ++i) {
    const Weight& weight = model.graph().weights()[i];
    const HostTensor wide = widen_to_f32(model.weight(static_cast<WeightId>(i)).on_host().view);
    const auto* first = wide.view.row<float>(0);
    Matrix m{weight.shape.rank == 1 ? 1 : weight.shape[0], weight.shape[weight.shape.rank - 1],
             std::vector<float>(first, first + weight.shape.elements())};
    const std::string tensor = gguf_name(weight.name);
    m = converted(model.config(), tensor, std::move(m));
    const std::uint32_t type = weight.kind == WeightKind::vector ? kGgmlF32 : options.matrix_type;
    std::optional<std::string> bytes = type == kGgmlQ4_0   ? q4_0_bytes(m)
                                       : type == kGgmlQ8_0 ? q8_0_bytes(m)
                                       : type == kGgmlBf16 ? bf16_bytes(m.values)
                                                           : f32_bytes(m.values);
    if (options.change) bytes = options.change(tensor, *std::move(bytes));
    std::vector<std::int64_t> dims(weight.shape.dims.begin(), weight.shape.dims.begin() + weight.shape.rank);
    if (bytes) writer.tensor(tensor, type, dims, *bytes);
  }
  return writer;
}

std::shared_ptr<const Model> small_model() {
  ModelConfig config = load_model_config(data_folder("TANDEM_MODELS") / "tiny");
  config.num_hidden_layers = 4;
  config.layer_types.resize(4);
  config.vocab_size = 64;
  config.hidden_size = config.intermediate_size = 32;
  config.linear_key_head_dim = config.head_dim = 32;
  const auto source = [&](const Weight& weight) { return synthetic_weight({}, config, weight); };
  return std::make_shared<const Model>(config, build_model_graph(config), source);
}

GgufWriter small_gguf(TinyGguf options) {
  static const std::shared_ptr<const Model> model = small_model();
  const bool tokenizer = std::exchange(options.tokenizer, false);
  GgufWriter writer = as_gguf(*model, options);
  if (!tokenizer) return writer;
  std::vector<std::string> tokens = {"AB", "<|endoftext|>"};
  for (char c = '!'; tokens.size() < 64; ++c) tokens.emplace_back(1, c);
  std::vector<std::int32_t> types(tokens.size(), 1);
  types[1] = 3;
  writer.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "qwen35");
  writer.strings("tokenizer.ggml.tokens", tokens).i32s("tokenizer.ggml.token_type", types);
  return writer.strings("tokenizer.ggml.merges", {"A B"});
}

}  // namespace tandem::test
