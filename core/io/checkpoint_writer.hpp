#pragma once

#include "core/io/model_config.hpp"
#include "core/io/safetensors_writer.hpp"

namespace tandem {

/// Writes the weights of a Hugging Face model directory, which Checkpoint opens: `model.safetensors`, or
/// shards of at most `shard_bytes` of data (a larger tensor has one of its own) in the given order and an
/// index. Throws as write_safetensors.
void write_checkpoint(const std::filesystem::path& directory, std::vector<NewTensor> tensors,
                      std::int64_t shard_bytes, const WriteProgress& progress = {},
                      const Metadata& metadata = {});

/// Writes config.json of a text model (Qwen3_5ForCausalLM), and generation_config.json when the config has
/// stop ids: what load_model_config reads as the same config, and transformers as the same model. `dtype`
/// names the weights' element type: bf16, f16 or f32. Throws Error(io).
void write_model_config(const std::filesystem::path& directory, const ModelConfig& config, DType dtype);

}  // namespace tandem
