#pragma once

#include <cstdint>
#include <string_view>

#include "core/io/model_config.hpp"

namespace tandem {

/// What a field of a ModelConfig decides.
enum class FieldUse : std::uint8_t {
  arithmetic,  ///< bits of logits or of state: a part of a model's fingerprint
  weights,     ///< which weights there are, and they say it better: a fingerprint has the list of them
  none         ///< no bit: a name, where a text ends, how long it may get
};

/// Calls visit(name, field, use) for every field, in order. A field that is added to ModelConfig and not here
/// does not compile: the bindings have to name all of them.
template <class Config, class Visit>
void visit_fields(Config& config, const Visit& visit) {
  auto& [model_type, hidden_size, intermediate_size, num_hidden_layers, vocab_size, layer_types,
         linear_num_key_heads, linear_num_value_heads, linear_key_head_dim, linear_value_head_dim,
         linear_conv_kernel_dim, num_attention_heads, num_key_value_heads, head_dim, rotary_dim, rope_theta,
         rms_norm_eps, tie_word_embeddings, max_position_embeddings, eos_token_ids] = config;
  visit("model_type", model_type, FieldUse::none);
  visit("hidden_size", hidden_size, FieldUse::arithmetic);
  visit("intermediate_size", intermediate_size, FieldUse::arithmetic);
  visit("num_hidden_layers", num_hidden_layers, FieldUse::arithmetic);
  visit("vocab_size", vocab_size, FieldUse::arithmetic);
  visit("layer_types", layer_types, FieldUse::arithmetic);
  visit("linear_num_key_heads", linear_num_key_heads, FieldUse::arithmetic);
  visit("linear_num_value_heads", linear_num_value_heads, FieldUse::arithmetic);
  visit("linear_key_head_dim", linear_key_head_dim, FieldUse::arithmetic);
  visit("linear_value_head_dim", linear_value_head_dim, FieldUse::arithmetic);
  visit("linear_conv_kernel_dim", linear_conv_kernel_dim, FieldUse::arithmetic);
  visit("num_attention_heads", num_attention_heads, FieldUse::arithmetic);
  visit("num_key_value_heads", num_key_value_heads, FieldUse::arithmetic);
  visit("head_dim", head_dim, FieldUse::arithmetic);
  visit("rotary_dim", rotary_dim, FieldUse::arithmetic);
  visit("rope_theta", rope_theta, FieldUse::arithmetic);
  visit("rms_norm_eps", rms_norm_eps, FieldUse::arithmetic);
  visit("tie_word_embeddings", tie_word_embeddings, FieldUse::weights);
  visit("max_position_embeddings", max_position_embeddings, FieldUse::none);
  visit("eos_token_ids", eos_token_ids, FieldUse::none);
}

}  // namespace tandem
