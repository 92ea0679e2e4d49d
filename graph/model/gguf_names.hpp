#pragma once

#include <cstdint>
#include <string>

namespace tandem {

/// What the converter to GGUF did with the values of a tensor.
enum class GgufChange : std::uint8_t {
  none,
  one_added,   ///< w + 1: every norm but the Gated DeltaNet's own
  decay_taken  ///< -exp(w): A_log
};

/// What belongs to value heads was reordered from grouped, [key head][r], to tiled, [r][key head], so that
/// value head h uses key head h mod (key heads). This says where the heads lie in a tensor.
enum class GgufHeads : std::uint8_t {
  none,
  rows,      ///< value_head_dim rows each, from the first row on
  channels,  ///< the same behind the rows of queries and keys
  single,    ///< a row (or element) each
  columns    ///< value_head_dim columns each
};

/// How a weight of the graph stands in a GGUF file of the architecture qwen35.
struct GgufPlace {
  std::string tensor;
  GgufChange change = GgufChange::none;
  GgufHeads heads = GgufHeads::none;
};

/// Of a weight by its name in the graph, as in "layers.0.mlp.up_proj.weight" -> "blk.0.ffn_up.weight". Throws
/// Error(not_found) for a name that no such file has.
GgufPlace gguf_place(const std::string& weight);

}  // namespace tandem
