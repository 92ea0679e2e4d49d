#include "state/layer_state.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "core/error.hpp"

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

std::string to_string(const Checksum& checksum) {
  return fmt::format("{:016x}{:016x}", checksum.high, checksum.low);
}

Checksum checksum(const LayerState& state) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(),
                                                                             &XXH3_freeState);
  if (!hash) throw std::bad_alloc();
  XXH3_128bits_reset(hash.get());
  for (const auto* part : {&state.recurrent, &state.conv, &state.keys, &state.values}) {
    if (!part->empty()) XXH3_128bits_update(hash.get(), part->data(), part->size());
  }
  const XXH128_hash_t digest = XXH3_128bits_digest(hash.get());
  return {.high = digest.high64, .low = digest.low64};
}

}  // namespace tandem
