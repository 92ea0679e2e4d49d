#include "tests/state/state_fixture.hpp"

#include <cstring>

#include "core/random.hpp"

namespace tandem::testing {
namespace {

std::uint32_t* words(const Tensor& tensor) { return static_cast<std::uint32_t*>(tensor.data); }
const std::uint32_t* words(const ConstTensor& tensor) {
  return static_cast<const std::uint32_t*>(tensor.data);
}

void compute_state(const ConstTensor& in, const Tensor& out, const std::vector<std::uint32_t>& tokens) {
  for (std::int64_t i = 0; i < in.shape.elements(); ++i) {
    std::uint32_t value = words(in)[i];
    for (std::uint32_t token : tokens) value = blend(value, static_cast<std::uint64_t>(i), token);
    words(out)[i] = value;
  }
}

/// Element `element` of [2, kv_heads, head_dim] at a position.
std::uint32_t& kv_element(const StateGeometry& geometry, std::span<void* const> pages, std::int64_t position,
                          std::int64_t element) {
  const KvDims& kv = geometry.kv;
  const std::int64_t part = element / kv.head_dim;
  const std::int64_t row = part * kv.page_tokens + position % kv.page_tokens;
  auto* page = static_cast<std::uint32_t*>(pages[position / kv.page_tokens]);
  return page[row * kv.head_dim + element % kv.head_dim];
}

template <class Recurrent, class Kv>
void for_each_layer(const StateManager& manager, const StateStep& step, Recurrent&& recurrent, Kv&& kv) {
  for (int layer = 0; layer < static_cast<int>(manager.geometry().layers.size()); ++layer) {
    const int home = manager.home(step.sequence(), layer);
    manager.geometry().layers[layer] == LayerKind::recurrent ? recurrent(layer, home) : kv(layer, home);
  }
}

}  // namespace

StateGeometry small_geometry() {
  StateGeometry geometry;
  using enum LayerKind;
  geometry.layers = {recurrent, recurrent, attention, recurrent, attention};
  geometry.recurrent = {.value_heads = 2, .key_dim = 3, .value_dim = 5, .conv_channels = 7, .conv_kernel = 4};
  geometry.kv = {.kv_heads = 2, .head_dim = 3, .page_tokens = 4};
  return geometry;
}

StateGeometry geometry_27b() {
  StateGeometry geometry;
  for (int i = 0; i < 64; ++i)
    geometry.layers.push_back(i % 4 == 3 ? LayerKind::attention : LayerKind::recurrent);
  geometry.recurrent = {
      .value_heads = 48, .key_dim = 128, .value_dim = 128, .conv_channels = 10240, .conv_kernel = 4};
  geometry.kv = {.kv_heads = 4, .head_dim = 256};
  return geometry;
}

LayerCapacity all_layers(const StateGeometry& geometry) {
  return {.recurrent = geometry.count(LayerKind::recurrent), .kv = geometry.count(LayerKind::attention)};
}

std::uint32_t blend(std::uint32_t old, std::uint64_t element, std::uint32_t token) {
  return static_cast<std::uint32_t>(
      mix64(mix64((std::uint64_t{old} << 32 | token) + kGoldenGamma) + element));
}

void compute(const StateManager& manager, const StateStep& step, const std::vector<std::uint32_t>& tokens) {
  ASSERT_EQ(step.tokens(), static_cast<std::int64_t>(tokens.size()));
  const StateGeometry& geometry = manager.geometry();
  for_each_layer(
      manager, step,
      [&](int layer, int home) {
        for (int part = 0; part < step.parts(); ++part) {
          const auto first = tokens.begin() + step.part(part).first_row;
          const std::vector<std::uint32_t> some(first, first + step.part(part).rows);
          compute_state(step.recurrent_in(layer, home, part), step.recurrent_out(layer, home, part), some);
          compute_state(step.conv_in(layer, home, part), step.conv_out(layer, home, part), some);
        }
      },
      [&](int layer, int home) {
        const std::span<void* const> pages = step.pages(layer, home);
        const std::int64_t elements = 2 * geometry.kv.kv_heads * geometry.kv.head_dim;
        for (std::int64_t i = 0; i < step.tokens() * elements; ++i) {
          const std::int64_t position = step.position() + i / elements;
          const std::int64_t element = i % elements;
          const std::uint32_t before = position > 0 ? kv_element(geometry, pages, position - 1, element) : 0;
          kv_element(geometry, pages, position, element) =
              blend(before, static_cast<std::uint64_t>(element), tokens[position - step.position()]);
        }
      });
}

void scribble(const StateManager& manager, const StateStep& step) {
  const StateGeometry& geometry = manager.geometry();
  for_each_layer(
      manager, step,
      [&](int layer, int home) {
        for (int part = 0; part < step.parts(); ++part) {
          const Tensor recurrent = step.recurrent_out(layer, home, part);
          const Tensor conv = step.conv_out(layer, home, part);
          std::memset(recurrent.data, 0xAB, static_cast<std::size_t>(recurrent.bytes()));
          std::memset(conv.data, 0xAB, static_cast<std::size_t>(conv.bytes()));
        }
      },
      [&](int layer, int home) {
        const std::span<void* const> pages = step.pages(layer, home);
        const std::int64_t elements = 2 * geometry.kv.kv_heads * geometry.kv.head_dim;
        const auto end = static_cast<std::int64_t>(pages.size()) * geometry.kv.page_tokens;
        for (std::int64_t position = step.position(); position < end; ++position) {
          for (std::int64_t i = 0; i < elements; ++i) kv_element(geometry, pages, position, i) = 0xABABABAB;
        }
      });
}

void advance(StateManager& manager, SequenceId id, const std::vector<std::uint32_t>& tokens) {
  StateStep step = manager.begin(id, static_cast<std::int64_t>(tokens.size()));
  compute(manager, step, tokens);
  step.commit();
}

std::vector<LayerState> export_all(const StateManager& manager, SequenceId id,
                                   std::optional<std::int64_t> version) {
  std::vector<LayerState> layers;
  for (int layer = 0; layer < static_cast<int>(manager.geometry().layers.size()); ++layer) {
    layers.push_back(export_layer(manager, id, layer, version));
  }
  return layers;
}

Used used(const StateManager& manager) {
  Used sum;
  for (const StateUsage& usage : manager.usage()) {
    sum.slots += usage.slots_used;
    sum.pages += usage.pages_used;
  }
  return sum;
}

}  // namespace tandem::testing
