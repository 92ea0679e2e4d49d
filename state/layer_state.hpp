#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/checksum.hpp"
#include "state/state_manager.hpp"

namespace tandem {

/// A layer of one version in host memory, in a form that knows nothing of slots, pages or backends: elements
/// of type geometry().real, contiguous. Two sequences that remember the same have equal ones.
struct LayerState {
  LayerKind kind = LayerKind::recurrent;
  std::int64_t tokens = 0;
  std::vector<std::byte> recurrent;  ///< [value_heads, key_dim, value_dim]; empty for a kv layer, as the next
  std::vector<std::byte> conv;       ///< [conv_kernel - 1, conv_channels]
  std::vector<std::byte> keys;    ///< [kv_heads, tokens, head_dim]; empty for a recurrent layer, as the next
  std::vector<std::byte> values;  ///< [kv_heads, tokens, head_dim]

  bool operator==(const LayerState&) const = default;
};

/// Downloads a layer of a kept version, of the newest unless `version` says another. An open step is not
/// seen. Throws as StateManager::view, and what Backend::download throws. Changes nothing.
LayerState export_layer(const StateManager& manager, SequenceId id, int layer,
                        std::optional<std::int64_t> version = {});
/// The same of a layer that no sequence has yet. Throws what Backend::download throws.
LayerState export_layer(const StateGeometry& geometry, const LayerView& view);

/// Bytes of a layer in that form: recurrent and conv, or the keys and values of `tokens` positions. Throws
/// Error(invalid_argument) when the dimensions or `tokens` are no sizes, or 63 bits do not hold the result.
std::int64_t layer_state_bytes(const StateGeometry& geometry, LayerKind kind, std::int64_t tokens);

/// XXH3 over recurrent, conv, keys and values, in this order, with no lengths between: those follow from the
/// geometry and the number of tokens, which stand beside a checksum wherever it is kept.
Checksum checksum(const LayerState& state);

}  // namespace tandem
