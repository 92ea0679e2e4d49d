#include "tests/properties/mixed_gears.hpp"

#include "graph/model/synthetic.hpp"

namespace tandem {
namespace {

constexpr const char* kMixedGears =
    "gdn=q4,mlp=q4q8,attention=q4q8,head=q4q8,layer.0-3=f32,layer.4-7=bf16,layer.8-15.gdn=q4q8,layer.16-19="
    "q4,"
    "layer.20-23=q4q8,layer.24.mlp=bf16,layer.25.gdn=f32,layer.31.attention=q4,layer.35.attention=bf16";

ModelConfig narrow_config() {
  ModelConfig config;
  config.model_type = "narrow";
  config.hidden_size = 64;
  config.intermediate_size = 96;
  config.num_hidden_layers = kMixedLayers;
  config.vocab_size = 2048;
  config.layer_types = interleaved_layers(kMixedLayers, 4);
  config.linear_num_key_heads = 1;
  config.linear_num_value_heads = 2;
  config.linear_key_head_dim = 32;
  config.linear_value_head_dim = 32;
  config.linear_conv_kernel_dim = 4;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 1;
  config.head_dim = 32;
  config.rotary_dim = 8;
  config.rope_theta = 10000;
  config.rms_norm_eps = 1e-6;
  config.tie_word_embeddings = true;
  config.max_position_embeddings = 4096;
  return config;
}

}  // namespace

std::shared_ptr<const Model> mixed_gears_model() {
  static const std::shared_ptr<const Model> model = [] {
    const ModelConfig config = narrow_config();
    const SyntheticSpec values;  // its element type and seed
    const auto source = [&](const Weight& weight) { return synthetic_data(values, config, weight); };
    Graph graph = build_model_graph(config, gears_of(Gears::parse(kMixedGears), published_gear));
    return std::make_shared<const Model>(config, std::move(graph), source);
  }();
  return model;
}

RunOptions mixed_run(const std::string& place, std::int64_t chunk) {
  RunOptions options;
  options.model = mixed_gears_model();
  options.session.place = place;
  options.session.residency = Residency::per_layer;
  options.chunk = chunk;
  return options;
}

}  // namespace tandem
