#include "state/state_import.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "core/error.hpp"

namespace tandem {
namespace {

using Bytes = std::span<const std::byte>;

bool is_zero(Bytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

void require_layers(const StateManager& manager, std::int64_t tokens, std::span<const Bytes> layers) {
  const StateGeometry& geometry = manager.geometry();
  if (layers.size() != geometry.layers.size()) {
    fail(ErrorCode::mismatch, "state of {} layers, the model has {}", layers.size(), geometry.layers.size());
  }
  if (tokens < 0 || tokens > manager.budget().context_tokens) {
    fail(ErrorCode::invalid_argument,
         "state of {} tokens: the context is limited to {}; ask for a larger context", tokens,
         manager.budget().context_tokens);
  }
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::int64_t expected = layer_state_bytes(geometry, geometry.layers[layer], tokens);
    if (layers[layer].size() != static_cast<std::uint64_t>(expected)) {
      fail(ErrorCode::mismatch, "state of layer {}: {} bytes, expected {}", layer, layers[layer].size(),
           expected);
    }
    if (tokens == 0 && !is_zero(layers[layer])) {
      fail(ErrorCode::invalid_argument, "state of layer {}: not zero, as it must be before the first token",
           layer);
    }
  }
}

/// Takes keys and values of [kv_heads, tokens, head_dim] apart into pages of [2, kv_heads, page_tokens,
/// head_dim].
void upload_pages(const StateGeometry& geometry, const StateStep& step, int layer, int home, Backend& backend,
                  Bytes bytes) {
  const auto row = static_cast<std::size_t>(geometry.kv.head_dim) * size_of(geometry.real);
  const auto page_tokens = static_cast<std::size_t>(geometry.kv.page_tokens);
  const auto rows = 2 * static_cast<std::size_t>(geometry.kv.kv_heads);
  const auto tokens = static_cast<std::size_t>(step.tokens());
  const std::span<void* const> pages = step.pages(layer, home);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    std::vector<std::byte> page(static_cast<std::size_t>(geometry.page_bytes()));
    const std::size_t first = i * page_tokens;
    const std::size_t count = std::min(page_tokens, tokens - first) * row;
    for (std::size_t head = 0; head < rows; ++head) {
      std::memcpy(&page[head * page_tokens * row], &bytes[(head * tokens + first) * row], count);
    }
    backend.upload(pages[i], page.data(), page.size());
  }
}

void upload_slot(const StateGeometry& geometry, const StateStep& step, int layer, int home, Backend& backend,
                 Bytes bytes) {
  const auto recurrent = static_cast<std::size_t>(geometry.recurrent_bytes());
  backend.upload(step.recurrent_out(layer, home).data, bytes.data(), recurrent);
  backend.upload(step.conv_out(layer, home).data, bytes.data() + recurrent, bytes.size() - recurrent);
}

void require_arrived(const LayerState& arrived, Bytes sent, int layer, const Backend& backend) {
  std::size_t begin = 0;
  for (const auto* part : {&arrived.recurrent, &arrived.conv, &arrived.keys, &arrived.values}) {
    if (!std::ranges::equal(*part, sent.subspan(begin, part->size()))) {
      fail(ErrorCode::mismatch, "state of layer {} changed on its way to {} (no sequence was opened)", layer,
           backend.info().name);
    }
    begin += part->size();
  }
}

void upload_layers(const StateManager& manager, const StateStep& step, std::span<const Bytes> layers) {
  const StateGeometry& geometry = manager.geometry();
  std::set<Backend*> used;
  for (int layer = 0; layer < static_cast<int>(layers.size()); ++layer) {
    const int home = step.home(layer);
    Backend& backend = *step.view(layer, 0).backend;
    const auto upload = geometry.layers[layer] == LayerKind::recurrent ? upload_slot : upload_pages;
    upload(geometry, step, layer, home, backend, layers[layer]);
    used.insert(&backend);
  }
  for (Backend* backend : used) backend->synchronize();  // what went wrong must show before the commit
  if (!manager.budget().verify) return;
  for (int layer = 0; layer < static_cast<int>(layers.size()); ++layer) {
    const LayerView view = step.view(layer, 0);
    require_arrived(export_layer(geometry, view), layers[layer], layer, *view.backend);
  }
}

/// As a step that computes nothing and writes what is known already.
void write_version(StateManager& manager, SequenceId id, std::int64_t tokens, std::span<const Bytes> layers,
                   OwnedLock* lock) {
  StateStep step = manager.begin(id, tokens);
  {
    const Released released(lock);
    upload_layers(manager, step, layers);
  }
  step.commit();
}

}  // namespace

SequenceId import_state(StateManager& manager, const SequenceOptions& options, std::int64_t tokens,
                        std::span<const Bytes> layers, OwnedLock* lock) {
  require_layers(manager, tokens, layers);
  const SequenceId id = manager.open(options);
  try {
    if (tokens > 0) write_version(manager, id, tokens, layers, lock);
  } catch (...) {
    manager.close(id);
    throw;
  }
  return id;
}

}  // namespace tandem
