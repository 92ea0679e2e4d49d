#include "graph/model/gguf_names.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/error.hpp"

namespace tandem {
namespace {

struct NameRule {
  std::string_view weight;  ///< behind "layers.N."
  std::string_view tensor;  ///< behind "blk.N."
  GgufChange change = GgufChange::none;
  GgufHeads heads = GgufHeads::none;
};

constexpr NameRule kEndRules[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight", GgufChange::one_added},
    {"lm_head.weight", "output.weight"},
};

constexpr NameRule kLayerRules[] = {
    {"input_layernorm.weight", "attn_norm.weight", GgufChange::one_added},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", GgufChange::one_added},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", GgufChange::one_added},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", GgufChange::one_added},
    {"linear_attn.in_proj_qkv.weight", "attn_qkv.weight", GgufChange::none, GgufHeads::channels},
    {"linear_attn.in_proj_z.weight", "attn_gate.weight", GgufChange::none, GgufHeads::rows},
    {"linear_attn.in_proj_a.weight", "ssm_alpha.weight", GgufChange::none, GgufHeads::single},
    {"linear_attn.in_proj_b.weight", "ssm_beta.weight", GgufChange::none, GgufHeads::single},
    {"linear_attn.conv1d.weight", "ssm_conv1d.weight", GgufChange::none, GgufHeads::channels},
    {"linear_attn.A_log", "ssm_a", GgufChange::decay_taken, GgufHeads::single},
    {"linear_attn.dt_bias", "ssm_dt.bias", GgufChange::none, GgufHeads::single},
    {"linear_attn.norm.weight", "ssm_norm.weight"},
    {"linear_attn.out_proj.weight", "ssm_out.weight", GgufChange::none, GgufHeads::columns},
};

}  // namespace

GgufPlace gguf_place(const std::string& weight) {
  constexpr std::string_view kLayers = "layers.";
  const bool in_layer = weight.starts_with(kLayers);
  const std::size_t dot = in_layer ? weight.find('.', kLayers.size()) : std::string::npos;
  const std::string name = dot == std::string::npos ? weight : weight.substr(dot + 1);
  const NameRule* end = in_layer ? std::end(kLayerRules) : std::end(kEndRules);
  const NameRule* rule = std::find_if(in_layer ? std::begin(kLayerRules) : std::begin(kEndRules), end,
                                      [&](const NameRule& candidate) { return candidate.weight == name; });
  if (rule == end) fail(ErrorCode::not_found, "weight '{}' has no place in a GGUF file", weight);
  const std::string prefix =
      in_layer ? "blk." + weight.substr(kLayers.size(), dot - kLayers.size()) + "." : "";
  return {prefix + std::string(rule->tensor), rule->change, rule->heads};
}

}  // namespace tandem
