#include "core/io/geometries.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tandem {

namespace {

/// What differs between the models; make_config has what they share.
struct Geometry {
  std::string_view name;
  std::int64_t hidden_size;
  std::int64_t layers;
  std::int64_t intermediate_size;
  std::int64_t attention_heads;
  std::int64_t key_value_heads;
  std::int64_t linear_value_heads;
  bool tied;
};

constexpr Geometry kGeometries[] = {
    {"0.8B", 1024, 24, 3584, 8, 2, 16, true},   {"2B", 2048, 24, 6144, 8, 2, 16, true},
    {"4B", 2560, 32, 9216, 16, 4, 32, true},    {"9B", 4096, 32, 12288, 16, 4, 32, false},
    {"27B", 5120, 64, 17408, 24, 4, 48, false},
};

ModelConfig make_config(const Geometry& geometry) {
  ModelConfig config;
  config.model_type = "qwen3_5_text";
  config.hidden_size = geometry.hidden_size;
  config.intermediate_size = geometry.intermediate_size;
  config.num_hidden_layers = geometry.layers;
  config.vocab_size = 248320;
  config.layer_types = interleaved_layers(geometry.layers, 4);
  config.linear_num_key_heads = 16;
  config.linear_num_value_heads = geometry.linear_value_heads;
  config.linear_key_head_dim = 128;
  config.linear_value_head_dim = 128;
  config.linear_conv_kernel_dim = 4;
  config.num_attention_heads = geometry.attention_heads;
  config.num_key_value_heads = geometry.key_value_heads;
  config.head_dim = 256;
  config.rotary_dim = 64;
  config.rope_theta = 1e7;
  config.rms_norm_eps = 1e-6;
  config.tie_word_embeddings = geometry.tied;
  config.max_position_embeddings = 262144;
  config.eos_token_ids = {248046, 248044};
  return config;
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> names;
  for (const Geometry& geometry : kGeometries) names.push_back(geometry.name);
  return names;
}

}  // namespace

const std::vector<std::string_view>& published_geometries() {
  static const std::vector<std::string_view> kNames = names();
  return kNames;
}

ModelConfig published_geometry(std::string_view name) {
  const auto* geometry = std::ranges::find(kGeometries, name, &Geometry::name);
  if (geometry == std::end(kGeometries)) {
    fail(ErrorCode::invalid_argument, "unknown geometry '{}': known are {}", name,
         fmt::join(published_geometries(), ", "));
  }
  return make_config(*geometry);
}

}  // namespace tandem
