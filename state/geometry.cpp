#include "state/geometry.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/shape.hpp"
#include "state/layer_pieces.hpp"

namespace tandem {
namespace {

std::int64_t bytes_of(const LayerPieces& pieces, std::string_view name, const char* what) {
  return pieces.bytes_of(pieces.find(name), 0, what);
}

void require_at_least(std::int64_t value, std::int64_t least, const char* field) {
  if (value < least) {
    fail(ErrorCode::invalid_argument, "state geometry: {} is {}, expected at least {}", field, value, least);
  }
}

}  // namespace

std::string_view state_name(LayerKind kind) { return kind == LayerKind::recurrent ? "recurrent" : "kv"; }

std::int64_t StateGeometry::count(LayerKind kind) const {
  return std::count(layers.begin(), layers.end(), kind);
}

std::int64_t StateGeometry::recurrent_bytes() const {
  return bytes_of(pieces_of(*this, LayerKind::recurrent), "recurrent", "recurrent state bytes");
}

std::int64_t StateGeometry::conv_bytes() const {
  return bytes_of(pieces_of(*this, LayerKind::recurrent), "conv", "convolution state bytes");
}

std::int64_t StateGeometry::conv_offset() const {
  const LayerPieces pieces = pieces_of(*this, LayerKind::recurrent);
  return pieces.slot_offset(pieces.find("conv"));
}

std::int64_t StateGeometry::slot_bytes() const { return pieces_of(*this, LayerKind::recurrent).slot_bytes(); }

std::int64_t StateGeometry::page_bytes() const { return pieces_of(*this, LayerKind::attention).page_bytes(); }

std::int64_t StateGeometry::page_stride() const {
  return pieces_of(*this, LayerKind::attention).page_stride();
}

std::int64_t StateGeometry::pages_for(std::int64_t tokens) const {
  require_at_least(tokens, 0, "tokens");
  require_at_least(kv.page_tokens, 1, "page_tokens");
  return tokens / kv.page_tokens + (tokens % kv.page_tokens != 0);
}

std::int64_t StateGeometry::sequence_bytes(std::int64_t tokens) const {
  std::int64_t bytes = 0;
  if (const std::int64_t n = count(LayerKind::recurrent))
    bytes = checked_mul(n, slot_bytes(), "sequence bytes");
  if (const std::int64_t n = count(LayerKind::attention)) {
    const std::int64_t layer = checked_mul(pages_for(tokens), page_stride(), "sequence bytes");
    bytes = checked_add(bytes, checked_mul(n, layer, "sequence bytes"), "sequence bytes");
  }
  return bytes;
}

void validate(const StateGeometry& geometry) {
  if (geometry.layers.empty())
    fail(ErrorCode::invalid_argument, "state geometry: no layers, expected at least one");
  if (geometry.real != DType::f32 && geometry.real != DType::f64) {
    fail(ErrorCode::invalid_argument, "state geometry: real is {}, expected f32 or f64", name(geometry.real));
  }
  if (geometry.count(LayerKind::recurrent) > 0) {
    require_at_least(geometry.recurrent.value_heads, 1, "value_heads");
    require_at_least(geometry.recurrent.key_dim, 1, "key_dim");
    require_at_least(geometry.recurrent.value_dim, 1, "value_dim");
    require_at_least(geometry.recurrent.conv_channels, 1, "conv_channels");
    require_at_least(geometry.recurrent.conv_kernel, 2, "conv_kernel");
  }
  if (geometry.count(LayerKind::attention) > 0) {
    require_at_least(geometry.kv.kv_heads, 1, "kv_heads");
    require_at_least(geometry.kv.head_dim, 1, "head_dim");
    require_at_least(geometry.kv.page_tokens, 1, "page_tokens");
  }
}

}  // namespace tandem
