#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/layer_kind.hpp"

namespace tandem {

/// The word in config.json: "linear_attention" (Gated DeltaNet) or "full_attention" (softmax attention over
/// all tokens).
std::string_view config_name(LayerKind kind);

/// The sizes and constants of a Qwen3.5 text model, named as in its config.json. A ModelConfig out of this
/// header or of core/io/geometries.hpp is consistent: all sizes are positive and limited (model_config.cpp
/// says how), so that a product of any two fits in 63 bits; the number of value heads is a multiple of that
/// of key heads, the number of query heads a multiple of that of key/value heads.
struct ModelConfig {
  std::string model_type;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t vocab_size = 0;  ///< rows of the embedding; more than the tokenizer's ids

  std::vector<LayerKind> layer_types;  ///< [num_hidden_layers]

  std::int64_t linear_num_key_heads = 0;
  std::int64_t linear_num_value_heads = 0;
  std::int64_t linear_key_head_dim = 0;
  std::int64_t linear_value_head_dim = 0;
  std::int64_t linear_conv_kernel_dim = 0;

  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;  ///< leading elements of a head that are rotated; even
  double rope_theta = 0;

  double rms_norm_eps = 0;
  bool tie_word_embeddings = false;
  std::int64_t max_position_embeddings = 0;  ///< tokens
  std::vector<std::int64_t> eos_token_ids;   ///< generation ends after any of them; may be empty

  std::int64_t key_dim() const { return linear_num_key_heads * linear_key_head_dim; }
  std::int64_t value_dim() const { return linear_num_value_heads * linear_value_head_dim; }
  /// Channels of the short convolution: queries, keys, values.
  std::int64_t conv_dim() const { return 2 * key_dim() + value_dim(); }
  std::int64_t q_dim() const { return num_attention_heads * head_dim; }
  std::int64_t kv_dim() const { return num_key_value_heads * head_dim; }
  std::int64_t count(LayerKind type) const;

  bool operator==(const ModelConfig&) const = default;
};

/// The published pattern: every `interval`-th layer has full attention, the others are linear.
std::vector<LayerKind> interleaved_layers(std::int64_t layers, std::int64_t interval);

/// Reads the text of a config.json, with its sizes under `text_config` or at the top; `where` begins the
/// messages. What may be left out has the value that transformers 5 gives it; rope_theta may not, as its
/// versions differ. NaN and Infinity are allowed in keys that are not read, as Python writes them. Throws
/// corrupt (no JSON, or contradictory), unsupported (another architecture or a variant that is not built, by
/// name), and invalid_argument (a value that is missing, of the wrong type or out of range), naming the key
/// and what was found.
ModelConfig parse_model_config(std::string_view json_text, std::string_view where);

/// Reads config.json in a Hugging Face model directory. End-of-sequence tokens in generation_config.json, if
/// there is one, win; those that cannot be this model's (no integer, or outside the vocabulary) are left out,
/// each with a line in `notices`. Throws like parse_model_config, require_model_directory and read_text_file;
/// unsupported for the folder of an adapter (LoRA), which is no model.
ModelConfig load_model_config(const std::filesystem::path& directory,
                              std::vector<std::string>* notices = nullptr);

}  // namespace tandem
