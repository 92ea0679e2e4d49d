#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/checksum.hpp"
#include "state/state_manager.hpp"

namespace tandem {

/// A layer of one version in host memory, in a form that knows nothing of slots, pages or backends: elements
/// of type geometry().real, all pieces of the layer in order, contiguous (layer_pieces.hpp). Two sequences
/// that remember the same have equal ones.
struct LayerState {
  LayerKind kind = LayerKind::recurrent;
  std::int64_t tokens = 0;
  LayerPieces pieces;
  std::vector<std::byte> bytes;

  /// Of how many positions the pages were, is no part of what a layer remembers.
  bool operator==(const LayerState& other) const;

  /// One piece: "recurrent", real [value_heads, key_dim, value_dim]; "conv", real [conv_kernel - 1,
  /// conv_channels]; "keys" and "values", real [kv_heads, tokens, head_dim]. Empty when the layer has none of
  /// that name. Valid as long as `bytes` stays.
  std::span<const std::byte> piece(std::string_view name) const;
};

/// Downloads a layer of a kept version, of the newest unless `version` says another. An open step is not
/// seen. Throws as StateManager::view, and what Backend::download throws. Changes nothing.
LayerState export_layer(const StateManager& manager, SequenceId id, int layer,
                        std::optional<std::int64_t> version = {});
/// The same of any layer in a backend's memory. Throws what Backend::download throws.
LayerState export_layer(const LayerView& view);

/// Writes `bytes`, a layer's state in the form of LayerState, to memory; what pads a page becomes zero.
/// REQUIRES: as many bytes as the view's pieces have for its tokens. Throws what Backend::upload throws.
void import_layer(const LayerView& view, std::span<const std::byte> bytes);

/// Bytes of a layer in that form after so many tokens. Throws Error(invalid_argument) when the dimensions or
/// `tokens` are no sizes, or 63 bits do not hold the result.
std::int64_t layer_state_bytes(const StateGeometry& geometry, LayerKind kind, std::int64_t tokens);

/// XXH3 of the bytes, with no lengths between the pieces: those follow from the geometry and the number of
/// tokens, which stand beside a checksum wherever it is kept.
Checksum checksum(const LayerState& state);

}  // namespace tandem
