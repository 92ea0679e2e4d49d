#include "core/io/checkpoint_writer.hpp"

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/io/json.hpp"
#include "core/io/mapped_file.hpp"

namespace tandem {

namespace {

namespace fs = std::filesystem;

using Shard = std::vector<NewTensor>;

std::vector<Shard> cut(std::vector<NewTensor> tensors, std::int64_t shard_bytes) {
  std::vector<Shard> shards(1);
  std::int64_t filled = 0;
  for (NewTensor& tensor : tensors) {
    if (filled > 0 && filled + tensor.bytes() > shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    filled += tensor.bytes();
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

void write_json(const fs::path& path, const Json& json) {
  const std::string text = json.dump(2) + "\n";
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

std::string_view torch_name(DType dtype) {
  return dtype == DType::bf16 ? "bfloat16" : dtype == DType::f16 ? "float16" : "float32";
}

/// Pairs of rotated elements that follow time, height and width of an image: without images all are the same,
/// but transformers wants their number.
std::vector<std::int64_t> rope_sections(std::int64_t pairs) {
  return {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3};
}

Json to_json(const ModelConfig& c, DType dtype) {
  Json layer_types = Json::array();
  for (const LayerKind type : c.layer_types) layer_types.push_back(config_name(type));
  Json json = {{"architectures", {"Qwen3_5ForCausalLM"}},
               {"model_type", c.model_type},
               {"dtype", torch_name(dtype)},
               {"hidden_act", "silu"},
               {"attention_bias", false},
               {"attention_dropout", 0.0},
               {"initializer_range", 0.02},
               {"use_cache", true},
               {"hidden_size", c.hidden_size},
               {"intermediate_size", c.intermediate_size},
               {"num_hidden_layers", c.num_hidden_layers},
               {"vocab_size", c.vocab_size},
               {"layer_types", layer_types},
               {"linear_num_key_heads", c.linear_num_key_heads},
               {"linear_num_value_heads", c.linear_num_value_heads},
               {"linear_key_head_dim", c.linear_key_head_dim},
               {"linear_value_head_dim", c.linear_value_head_dim},
               {"linear_conv_kernel_dim", c.linear_conv_kernel_dim},
               {"num_attention_heads", c.num_attention_heads},
               {"num_key_value_heads", c.num_key_value_heads},
               {"head_dim", c.head_dim},
               {"max_position_embeddings", c.max_position_embeddings},
               {"rms_norm_eps", c.rms_norm_eps},
               {"tie_word_embeddings", c.tie_word_embeddings}};
  json["rope_parameters"] = {
      {"rope_type", "default"},
      {"rope_theta", c.rope_theta},
      {"partial_rotary_factor", static_cast<double>(c.rotary_dim) / static_cast<double>(c.head_dim)},
      {"mrope_interleaved", true},
      {"mrope_section", rope_sections(c.rotary_dim / 2)}};
  if (!c.eos_token_ids.empty()) json["eos_token_id"] = c.eos_token_ids;
  return json;
}

}  // namespace

void write_checkpoint(const fs::path& directory, std::vector<NewTensor> tensors, std::int64_t shard_bytes,
                      const WriteProgress& progress, const Metadata& metadata) {
  std::vector<Shard> shards = cut(std::move(tensors), shard_bytes);
  if (shards.size() == 1) {
    return write_safetensors(directory / "model.safetensors", std::move(shards.front()), progress, metadata);
  }
  Json places = Json::object();
  std::int64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    for (const NewTensor& tensor : shards[i]) {
      places[tensor.name] = file;
      total += tensor.bytes();
    }
    write_safetensors(directory / file, std::move(shards[i]), progress, metadata);
  }
  write_json(directory / "model.safetensors.index.json",
             {{"metadata", {{"total_size", total}}}, {"weight_map", places}});
}

void write_model_config(const fs::path& directory, const ModelConfig& config, DType dtype) {
  write_json(directory / "config.json", to_json(config, dtype));
  if (config.eos_token_ids.empty()) return;
  write_json(directory / "generation_config.json",
             {{"_from_model_config", true}, {"eos_token_id", config.eos_token_ids}});
}

}  // namespace tandem
