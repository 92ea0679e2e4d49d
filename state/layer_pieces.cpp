#include "state/layer_pieces.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "state/geometry.hpp"

namespace tandem {
namespace {

std::int64_t aligned(std::int64_t bytes) {
  return checked_add(bytes, kStateAlignment - 1, "state bytes") / kStateAlignment * kStateAlignment;
}

std::int64_t page_bytes_of(const LayerPieces& pieces, const StatePiece& piece) {
  return pieces.bytes_of(piece, pieces.page_tokens, "page bytes");
}

}  // namespace

bool LayerPieces::has(Storage storage) const {
  return std::ranges::any_of(list, [&](const StatePiece& piece) { return piece.storage == storage; });
}

const StatePiece& LayerPieces::find(std::string_view name) const {
  const auto found = std::ranges::find(list, name, &StatePiece::name);
  if (found == list.end()) fail(ErrorCode::not_found, "a layer's state has no piece {}", name);
  return *found;
}

std::int64_t LayerPieces::slot_bytes() const {
  std::int64_t bytes = 0;
  for (const StatePiece& piece : list) {
    if (piece.storage == Storage::slot)
      bytes = checked_add(bytes, aligned(bytes_of(piece, 0, "state bytes")), "slot bytes");
  }
  return bytes;
}

std::int64_t LayerPieces::slot_offset(const StatePiece& piece) const {
  std::int64_t offset = 0;
  for (const StatePiece* before = list.data(); before != &piece; ++before) {
    if (before->storage == Storage::slot)
      offset = checked_add(offset, aligned(bytes_of(*before, 0, "state bytes")), "slot bytes");
  }
  return offset;
}

std::int64_t LayerPieces::page_bytes() const {
  std::int64_t bytes = 0;
  for (const StatePiece& piece : list) {
    if (piece.storage == Storage::pages)
      bytes = checked_add(bytes, page_bytes_of(*this, piece), "page bytes");
  }
  return bytes;
}

std::int64_t LayerPieces::page_stride() const { return aligned(page_bytes()); }

Tensor LayerPieces::tensor(std::string_view name, void* slot) const {
  const StatePiece& piece = find(name);
  return {static_cast<std::byte*>(slot) + slot_offset(piece), real, piece.shape};
}

std::int64_t LayerPieces::bytes_of(const StatePiece& piece, std::int64_t tokens, const char* what) const {
  std::int64_t elements = checked_elements(piece.shape, what);
  if (piece.storage == Storage::pages) elements = checked_mul(elements, tokens, what);
  return checked_mul(elements, static_cast<std::int64_t>(size_of(real)), what);
}

std::int64_t LayerPieces::offset_of(const StatePiece& piece, std::int64_t tokens) const {
  constexpr const char* kWhat = "bytes of a layer's state";
  std::int64_t offset = 0;
  for (const StatePiece* before = list.data(); before != &piece; ++before)
    offset = checked_add(offset, bytes_of(*before, tokens, kWhat), kWhat);
  return offset;
}

std::int64_t LayerPieces::state_bytes(std::int64_t tokens) const {
  constexpr const char* kWhat = "bytes of a layer's state";
  std::int64_t bytes = 0;
  for (const StatePiece& piece : list) bytes = checked_add(bytes, bytes_of(piece, tokens, kWhat), kWhat);
  return bytes;
}

LayerPieces pieces_of(const StateGeometry& geometry, LayerKind kind) {
  if (kind == LayerKind::recurrent) {
    const RecurrentDims& dims = geometry.recurrent;
    const Shape state = {dims.value_heads, dims.key_dim, dims.value_dim};
    const Shape conv = {dims.conv_kernel - 1, dims.conv_channels};
    return {{{"recurrent", Storage::slot, state, dims.value_heads}, {"conv", Storage::slot, conv, 1}},
            geometry.real};
  }
  const KvDims& dims = geometry.kv;
  const Shape token = {dims.kv_heads, dims.head_dim};
  return {{{"keys", Storage::pages, token, dims.kv_heads}, {"values", Storage::pages, token, dims.kv_heads}},
          geometry.real,
          dims.page_tokens};
}

std::vector<LayerPieces> pieces_of(const StateGeometry& geometry) {
  std::vector<LayerPieces> layers;
  for (const LayerKind kind : geometry.layers) layers.push_back(pieces_of(geometry, kind));
  return layers;
}

void for_each_run(const LayerView& view, const std::function<void(const StateRun&)>& run) {
  const LayerPieces& pieces = *view.pieces;
  for (const StatePiece& piece : pieces.list) {
    if (piece.storage != Storage::slot) continue;
    const std::int64_t offset = pieces.slot_offset(piece);
    run({.piece = &piece,
         .data = static_cast<std::byte*>(view.slot) + offset,
         .offset = offset,
         .bytes = pieces.bytes_of(piece, view.tokens, "state bytes")});
  }
  if (view.pages.empty()) return;
  const std::int64_t bytes = pieces.page_bytes();
  for (std::size_t i = 0; i < view.pages.size(); ++i)
    run({.page = static_cast<std::int64_t>(i), .data = view.pages[i], .bytes = bytes});
}

std::vector<PageRows> rows_of(const LayerPieces& pieces, std::int64_t page, std::int64_t tokens) {
  const std::int64_t first = page * pieces.page_tokens;
  const std::int64_t positions = std::min(pieces.page_tokens, tokens - first);
  std::vector<PageRows> all;
  std::int64_t in_page = 0;
  for (const StatePiece& piece : pieces.list) {
    if (piece.storage != Storage::pages) continue;
    const std::int64_t in_state = pieces.offset_of(piece, tokens);
    // Of one position of one head.
    const std::int64_t row = pieces.bytes_of(piece, 1, "page bytes") / piece.heads;
    for (std::int64_t head = 0; head < piece.heads; ++head) {
      all.push_back({.in_page = in_page + head * pieces.page_tokens * row,
                     .in_state = in_state + (head * tokens + first) * row,
                     .bytes = positions * row});
    }
    in_page += page_bytes_of(pieces, piece);
  }
  return all;
}

}  // namespace tandem
