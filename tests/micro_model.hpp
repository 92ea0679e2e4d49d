#pragma once

#include <memory>

#include "graph/model/model.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/model/synthetic.hpp"

namespace tandem {

inline constexpr int kMicroLayers = 3;
inline constexpr std::int64_t kMicroVocab = 64;

/// Sizes of a model so small that a step takes microseconds: two layers of Gated DeltaNet, then one of
/// attention. For tests that compare bits and need many steps; it says nothing that makes sense.
inline ModelConfig micro_config() {
  ModelConfig config;
  config.model_type = "qwen3_5_text";
  config.hidden_size = 64;
  config.intermediate_size = 64;
  config.num_hidden_layers = kMicroLayers;
  config.vocab_size = kMicroVocab;
  config.layer_types = interleaved_layers(kMicroLayers, kMicroLayers);
  config.linear_num_key_heads = 1;
  config.linear_num_value_heads = 2;
  config.linear_key_head_dim = 16;
  config.linear_value_head_dim = 16;
  config.linear_conv_kernel_dim = 4;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 1;
  config.head_dim = 32;
  config.rotary_dim = 16;
  config.rope_theta = 10000;
  config.rms_norm_eps = 1e-6;
  config.tie_word_embeddings = false;
  config.max_position_embeddings = 256;
  return config;
}

/// The model, made once: the same weights everywhere.
inline std::shared_ptr<const Model> micro_model() {
  static const std::shared_ptr<const Model> model = [] {
    const SyntheticSpec spec{.geometry = "micro", .dtype = DType::f32};
    const ModelConfig config = micro_config();
    Graph graph = build_model_graph(config, [](const Weight&) { return Gear::f32; });
    return std::make_shared<const Model>(config, std::move(graph), [&](const Weight& weight) {
      return WeightData(make_host_tensor("micro", synthetic_weight(spec, config, weight)));
    });
  }();
  return model;
}

}  // namespace tandem
