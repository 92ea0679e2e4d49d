#include "state/layer_state.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "core/shape.hpp"

namespace tandem {
namespace {

std::vector<std::byte> download(Backend& backend, const ConstTensor& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
  backend.download(bytes.data(), tensor.data, bytes.size());
  return bytes;
}

/// Turns pages of [2, kv_heads, page_tokens, head_dim] into keys and values of [kv_heads, tokens, head_dim].
void download_pages(const StateGeometry& geometry, const LayerView& view, LayerState& state) {
  const auto row = static_cast<std::size_t>(geometry.kv.head_dim) * size_of(geometry.real);
  const auto page_tokens = static_cast<std::size_t>(geometry.kv.page_tokens);
  const auto heads = static_cast<std::size_t>(geometry.kv.kv_heads);
  const auto tokens = static_cast<std::size_t>(view.tokens);
  state.keys.resize(heads * tokens * row);
  state.values.resize(heads * tokens * row);
  std::vector<std::byte> page(static_cast<std::size_t>(geometry.page_bytes()));
  for (std::size_t i = 0; i < view.pages.size(); ++i) {
    view.backend->download(page.data(), view.pages[i], page.size());
    const std::size_t first = i * page_tokens;
    const std::size_t bytes = std::min(page_tokens, tokens - first) * row;
    for (std::size_t head = 0; head < heads; ++head) {
      const std::size_t to = (head * tokens + first) * row;
      std::memcpy(&state.keys[to], &page[head * page_tokens * row], bytes);
      std::memcpy(&state.values[to], &page[(heads + head) * page_tokens * row], bytes);
    }
  }
}

}  // namespace

LayerState export_layer(const StateManager& manager, SequenceId id, int layer,
                        std::optional<std::int64_t> version) {
  return export_layer(manager.geometry(), manager.view(id, layer, version));
}

LayerState export_layer(const StateGeometry& geometry, const LayerView& view) {
  LayerState state;
  state.kind = view.kind;
  state.tokens = view.tokens;
  if (view.kind == LayerKind::recurrent) {
    state.recurrent = download(*view.backend, view.recurrent);
    state.conv = download(*view.backend, view.conv);
  } else {
    download_pages(geometry, view, state);
  }
  return state;
}

std::int64_t layer_state_bytes(const StateGeometry& geometry, LayerKind kind, std::int64_t tokens) {
  constexpr const char* kWhat = "bytes of a layer's state";
  if (kind == LayerKind::recurrent) {
    return checked_add(geometry.recurrent_bytes(), geometry.conv_bytes(), kWhat);
  }
  const Shape shape = {2, geometry.kv.kv_heads, tokens, geometry.kv.head_dim};
  return checked_mul(checked_elements(shape, kWhat), static_cast<std::int64_t>(size_of(geometry.real)),
                     kWhat);
}

Checksum checksum(const LayerState& state) {
  Checksummer sum;
  for (const auto* part : {&state.recurrent, &state.conv, &state.keys, &state.values}) sum.add(*part);
  return sum.result();
}

}  // namespace tandem
