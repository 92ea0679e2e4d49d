#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/layer_kind.hpp"
#include "core/shape.hpp"
#include "core/tensor.hpp"

namespace tandem {

class Backend;
struct StateGeometry;

/// Where a piece of a layer's state lies.
enum class Storage : std::uint8_t {
  slot,   ///< its size does not depend on the tokens seen: in a slot, which is one version of the layer
  pages,  ///< it grows with every token: in pages of page_tokens positions
};

/// One tensor of what a layer keeps of a sequence.
struct StatePiece {
  std::string_view name;  ///< of a literal: "conv"
  Storage storage = Storage::slot;
  Shape shape;  ///< in a slot: of all of it; in pages: of one token
  /// Equal parts, one after the other, into which the shape falls: its first size, or 1. They are compared
  /// one by one, and a page holds the positions of the first one, then those of the second.
  std::int64_t heads = 1;

  bool operator==(const StatePiece&) const = default;
};

/// What a layer keeps, as a list. Whatever copies, moves, saves or compares state goes by this list alone, so
/// that the state of another family of models is another list. Plain data.
///
/// State has two forms:
///  - blocks of a backend's memory. A slot has its pieces in order, each at a multiple of kStateAlignment. A
///    page has its pieces in order with nothing between, each real [heads, page_tokens, rest of the shape].
///  - bytes on the host (LayerState, a layer in a snapshot): all pieces in order with nothing between; a
///    piece in pages is real [heads, tokens, rest of the shape].
///
/// Sizes are in bytes. Those functions throw Error(invalid_argument) naming `what` when the shapes are no
/// sizes or 63 bits do not hold the result.
struct LayerPieces {
  std::vector<StatePiece> list;
  DType real = DType::f32;
  std::int64_t page_tokens = 1;  ///< of no matter when nothing is in pages

  bool operator==(const LayerPieces&) const = default;

  bool has(Storage storage) const;
  /// Throws Error(not_found) when there is none of this name.
  const StatePiece& find(std::string_view name) const;

  std::int64_t slot_bytes() const;                          ///< 0 when nothing is in a slot
  std::int64_t slot_offset(const StatePiece& piece) const;  ///< REQUIRES: a piece of `list`
  std::int64_t page_bytes() const;                          ///< 0 when nothing is in pages
  std::int64_t page_stride() const;  ///< page_bytes, up to a multiple of kStateAlignment
  /// A piece of this slot. REQUIRES: it is in slots. Throws as find.
  Tensor tensor(std::string_view name, void* slot) const;

  /// In the host's form, after that many tokens: of one piece, where it begins (REQUIRES: a piece of
  /// `list`), and of all.
  std::int64_t bytes_of(const StatePiece& piece, std::int64_t tokens, const char* what) const;
  std::int64_t offset_of(const StatePiece& piece, std::int64_t tokens) const;
  std::int64_t state_bytes(std::int64_t tokens) const;
};

/// The lists of a geometry: of a kind of layer, and of each layer. "recurrent" and "conv", or "keys" and
/// "values".
LayerPieces pieces_of(const StateGeometry& geometry, LayerKind kind);
std::vector<LayerPieces> pieces_of(const StateGeometry& geometry);

/// One version of a layer in a backend's memory: to read when it is a kept one, to write when a step that is
/// open writes it. Owns nothing.
struct LayerView {
  LayerKind kind = LayerKind::recurrent;
  const LayerPieces* pieces = nullptr;
  Backend* backend = nullptr;  ///< in whose memory it is
  std::int64_t tokens = 0;
  void* slot = nullptr;          ///< null when the layer has nothing in slots
  std::span<void* const> pages;  ///< as many as the tokens need; the rest of the last one belongs to nobody

  /// One that is in the slot. Throws as LayerPieces::find.
  ConstTensor piece(std::string_view name) const { return pieces->tensor(name, slot); }
};

/// Bytes that follow one another in a block and mean something: a piece of a slot, or a page without what
/// pads it.
struct StateRun {
  const StatePiece* piece = nullptr;  ///< in a slot; null for a page, which has several
  std::int64_t page = 0;              ///< number of the page
  void* data = nullptr;               ///< in the backend's memory
  std::int64_t offset = 0;            ///< from where the block begins
  std::int64_t bytes = 0;
};

/// The walk over a layer's memory: all runs, the slot's pieces in order, then the pages by position. Throws
/// what `run` throws.
void for_each_run(const LayerView& view, const std::function<void(const StateRun&)>& run);

/// Positions of one head of one piece: contiguous both in a page and in the host's form.
struct PageRows {
  std::int64_t in_page = 0;   ///< bytes from the beginning of the page
  std::int64_t in_state = 0;  ///< bytes from the beginning of the layer's state
  std::int64_t bytes = 0;
};

/// What page number `page` holds of a state of so many tokens. REQUIRES: tokens that reach into that page.
std::vector<PageRows> rows_of(const LayerPieces& pieces, std::int64_t page, std::int64_t tokens);

}  // namespace tandem
