#include "state/state_import.hpp"

#include <algorithm>
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

void require_arrived(const LayerState& arrived, Bytes sent, int layer, const Backend& backend) {
  if (std::ranges::equal(arrived.bytes, sent)) return;
  fail(ErrorCode::mismatch, "state of layer {} changed on its way to {} (no sequence was opened)", layer,
       backend.info().name);
}

void upload_layers(const StateManager& manager, const StateStep& step, std::span<const Bytes> layers) {
  std::set<Backend*> used;
  for (int layer = 0; layer < static_cast<int>(layers.size()); ++layer) {
    const LayerView view = step.view(layer, 0);
    import_layer(view, layers[static_cast<std::size_t>(layer)]);
    used.insert(view.backend);
  }
  for (Backend* backend : used) backend->synchronize();  // what went wrong must show before the commit
  if (!manager.budget().verify) return;
  for (int layer = 0; layer < static_cast<int>(layers.size()); ++layer) {
    const LayerView view = step.view(layer, 0);
    require_arrived(export_layer(view), layers[static_cast<std::size_t>(layer)], layer, *view.backend);
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
