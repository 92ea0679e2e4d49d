#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/layer_kind.hpp"

namespace tandem {

/// What a layer remembers of a sequence, as messages and contracts call it: "recurrent" or "kv".
std::string_view state_name(LayerKind kind);

/// A Gated DeltaNet layer. Its state is S, real [value_heads, key_dim, value_dim], and the convolution's
/// memory, real [conv_kernel - 1, conv_channels], oldest first.
struct RecurrentDims {
  std::int64_t value_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t conv_channels = 0;
  std::int64_t conv_kernel = 0;  ///< at least 2: a kernel of 1 remembers nothing

  bool operator==(const RecurrentDims&) const = default;
};

/// A full-attention layer. A page is real [2, kv_heads, page_tokens, head_dim]: all keys, then all values.
struct KvDims {
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t page_tokens = 32;

  bool operator==(const KvDims&) const = default;
};

/// Every part of a slot and every page starts at a multiple of this, so that kernels may use aligned vector
/// access.
inline constexpr std::int64_t kStateAlignment = 64;

/// Shapes of what one sequence remembers, layer by layer. All layers of a kind have the same shape. Plain
/// data; the dimensions of a kind that no layer has are not looked at. The sizes come from the list of what a
/// layer keeps (layer_pieces.hpp).
///
/// All sizes are in bytes and 64 bits wide. Each function throws Error(invalid_argument) when the dimensions
/// are not sizes or the result does not fit.
struct StateGeometry {
  std::vector<LayerKind> layers;
  RecurrentDims recurrent;
  KvDims kv;
  DType real = DType::f32;  ///< element type of all state: f32, or f64 for the reference backend

  bool operator==(const StateGeometry&) const = default;

  std::int64_t count(LayerKind kind) const;

  std::int64_t recurrent_bytes() const;  ///< S of one layer
  std::int64_t conv_bytes() const;       ///< the convolution's memory of one layer
  std::int64_t conv_offset() const;      ///< where it starts in a slot
  std::int64_t slot_bytes() const;       ///< both, each aligned: one layer of one version
  std::int64_t page_bytes() const;       ///< keys and values of page_tokens positions of one layer
  std::int64_t page_stride() const;      ///< page_bytes, aligned

  /// Pages of one layer that hold `tokens` positions.
  std::int64_t pages_for(std::int64_t tokens) const;
  /// All layers of one sequence, once (one version), with room for `tokens` positions.
  std::int64_t sequence_bytes(std::int64_t tokens) const;
};

/// Throws Error(invalid_argument) naming the first field that has no meaning.
void validate(const StateGeometry& geometry);

}  // namespace tandem
