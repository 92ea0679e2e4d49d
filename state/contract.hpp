#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/arithmetic.hpp"
#include "state/layer_state.hpp"

namespace tandem {

/// What must agree before state that came from somewhere else is computed with. Heads of 128 x 128 look the
/// same transposed, and value heads grouped by key head look the same as interleaved ones: bytes cannot tell,
/// so whoever hands over state says which it is.
struct StateContract {
  StateGeometry geometry;  ///< its page_tokens is not compared: exported state has no pages
  std::string recurrent_layout = "value_heads,key_dim,value_dim";
  std::string conv_layout = "conv_kernel-1,conv_channels";  ///< oldest input first
  std::string kv_layout = "kv_heads,tokens,head_dim";       ///< keys after norm and rotation
  std::string head_order = "grouped";  ///< value heads h*R .. h*R + R-1 read key head h, R being their ratio
  std::int32_t arithmetic = kArithmeticVersion;  ///< version of the definitions that made the state
  std::int64_t tokens = 0;
  std::string model;             ///< fingerprint of the model that made the state
  std::vector<Checksum> layers;  ///< of each layer's LayerState
};

/// Describes the newest version of a sequence as export_layer() gives it. Downloads all of it.
/// Throws as export_layer.
StateContract make_contract(const StateManager& manager, SequenceId id, std::string_view model);
/// The same of a state of so many tokens that somebody else hands out.
StateContract make_contract(const StateGeometry& geometry, std::int64_t tokens, std::string_view model,
                            const std::function<LayerState(int layer)>& layer);

/// The first field in which two contracts differ, with both values ("key_dim: expected 128, found 64"); empty
/// when they agree. What the bytes mean comes before which bytes they are.
std::string difference(const StateContract& expected, const StateContract& found);

bool operator==(const StateContract& a, const StateContract& b);

/// Throws Error(mismatch) with the difference unless there is none. `what` names the state that was found.
void require_match(const StateContract& expected, const StateContract& found, std::string_view what);

}  // namespace tandem
