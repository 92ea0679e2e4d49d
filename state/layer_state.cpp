#include "state/layer_state.hpp"

#include <algorithm>
#include <cstring>

namespace tandem {

bool LayerState::operator==(const LayerState& other) const {
  return kind == other.kind && tokens == other.tokens && pieces.list == other.pieces.list &&
         pieces.real == other.pieces.real && bytes == other.bytes;
}

std::span<const std::byte> LayerState::piece(std::string_view name) const {
  const auto found = std::ranges::find(pieces.list, name, &StatePiece::name);
  if (found == pieces.list.end()) return {};
  return std::span(bytes).subspan(
      static_cast<std::size_t>(pieces.offset_of(*found, tokens)),
      static_cast<std::size_t>(pieces.bytes_of(*found, tokens, "bytes of a layer's state")));
}

LayerState export_layer(const StateManager& manager, SequenceId id, int layer,
                        std::optional<std::int64_t> version) {
  return export_layer(manager.view(id, layer, version));
}

LayerState export_layer(const LayerView& view) {
  const LayerPieces& pieces = *view.pieces;
  LayerState state{view.kind, view.tokens, pieces, {}};
  state.bytes.resize(static_cast<std::size_t>(pieces.state_bytes(view.tokens)));
  std::vector<std::byte> page;
  for_each_run(view, [&](const StateRun& run) {
    const auto bytes = static_cast<std::size_t>(run.bytes);
    if (run.piece != nullptr) {
      view.backend->download(
          &state.bytes[static_cast<std::size_t>(pieces.offset_of(*run.piece, view.tokens))], run.data, bytes);
      return;
    }
    page.resize(bytes);
    view.backend->download(page.data(), run.data, bytes);
    for (const PageRows& rows : rows_of(pieces, run.page, view.tokens)) {
      std::memcpy(&state.bytes[static_cast<std::size_t>(rows.in_state)],
                  &page[static_cast<std::size_t>(rows.in_page)], static_cast<std::size_t>(rows.bytes));
    }
  });
  return state;
}

void import_layer(const LayerView& view, std::span<const std::byte> state) {
  const LayerPieces& pieces = *view.pieces;
  for_each_run(view, [&](const StateRun& run) {
    const auto bytes = static_cast<std::size_t>(run.bytes);
    if (run.piece != nullptr) {
      view.backend->upload(
          run.data, &state[static_cast<std::size_t>(pieces.offset_of(*run.piece, view.tokens))], bytes);
      return;
    }
    std::vector<std::byte> page(bytes);
    for (const PageRows& rows : rows_of(pieces, run.page, view.tokens)) {
      std::memcpy(&page[static_cast<std::size_t>(rows.in_page)],
                  &state[static_cast<std::size_t>(rows.in_state)], static_cast<std::size_t>(rows.bytes));
    }
    view.backend->upload(run.data, page.data(), bytes);
  });
}

std::int64_t layer_state_bytes(const StateGeometry& geometry, LayerKind kind, std::int64_t tokens) {
  return pieces_of(geometry, kind).state_bytes(tokens);
}

Checksum checksum(const LayerState& state) { return checksum(std::span<const std::byte>(state.bytes)); }

}  // namespace tandem
