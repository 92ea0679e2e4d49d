#pragma once

#include <cstdint>

namespace tandem {

/// The two kinds of layers of a hybrid model. A config calls them linear_attention and full_attention
/// (core/io/model_config.hpp), a state recurrent and kv (state/geometry.hpp), and the part of a layer that
/// keeps the state is gdn or attention (graph/model/graph.hpp).
enum class LayerKind : std::uint8_t {
  recurrent,  ///< remembers in a state of fixed size: Gated DeltaNet
  attention,  ///< remembers keys and values of every token
};

}  // namespace tandem
