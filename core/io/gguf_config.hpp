#pragma once

#include "core/io/gguf.hpp"
#include "core/io/model_config.hpp"

namespace tandem {

/// Layers for multi-token prediction behind the model's own, which are not used: qwen35.nextn_predict_layers,
/// or 0.
std::int64_t gguf_extra_layers(const GgufFile& file);

/// The configuration that a GGUF file's keys and tensors say. The same as that of the directory which the
/// file was made from, but for what the file does not keep: model_type is "qwen3_5_text", and generation ends
/// after the tokens of eos_token_id and eot_token_id and a control token <|endoftext|>.
///
/// Throws unsupported for an architecture other than qwen35, by name, and for what parse_model_config calls
/// unsupported; invalid_argument naming the key for one that is missing, of the wrong type or out of range.
ModelConfig gguf_model_config(const GgufFile& file);

}  // namespace tandem
