#include "state/contract.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tandem {
namespace {

/// Keeps the first difference it is told of.
class Comparison {
 public:
  template <class T>
  void field(std::string_view field, const T& expected, const T& found) {
    if (text_.empty() && !(expected == found))
      text_ = fmt::format("{}: expected {}, found {}", field, expected, found);
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void compare_layers(const StateGeometry& expected, const StateGeometry& found, Comparison& comparison) {
  comparison.field("number of layers", expected.layers.size(), found.layers.size());
  const std::size_t layers = std::min(expected.layers.size(), found.layers.size());
  for (std::size_t i = 0; i < layers; ++i) {
    comparison.field(fmt::format("kind of layer {}", i), state_name(expected.layers[i]),
                     state_name(found.layers[i]));
  }
}

void compare_dims(const StateGeometry& expected, const StateGeometry& found, Comparison& comparison) {
  if (expected.count(LayerKind::recurrent) > 0) {
    const RecurrentDims& a = expected.recurrent;
    const RecurrentDims& b = found.recurrent;
    comparison.field("value_heads", a.value_heads, b.value_heads);
    comparison.field("key_dim", a.key_dim, b.key_dim);
    comparison.field("value_dim", a.value_dim, b.value_dim);
    comparison.field("conv_channels", a.conv_channels, b.conv_channels);
    comparison.field("conv_kernel", a.conv_kernel, b.conv_kernel);
  }
  if (expected.count(LayerKind::attention) > 0) {
    comparison.field("kv_heads", expected.kv.kv_heads, found.kv.kv_heads);
    comparison.field("head_dim", expected.kv.head_dim, found.kv.head_dim);
  }
  comparison.field("real", name(expected.real), name(found.real));
}

}  // namespace

StateContract make_contract(const StateManager& manager, SequenceId id, std::string_view model) {
  return make_contract(manager.geometry(), manager.tokens(id), model,
                       [&](int layer) { return export_layer(manager, id, layer); });
}

StateContract make_contract(const StateGeometry& geometry, std::int64_t tokens, std::string_view model,
                            const std::function<LayerState(int layer)>& state_of) {
  StateContract contract;
  contract.geometry = geometry;
  contract.tokens = tokens;
  contract.model = model;
  for (int layer = 0; layer < static_cast<int>(contract.geometry.layers.size()); ++layer) {
    contract.layers.push_back(checksum(state_of(layer)));
  }
  return contract;
}

std::string difference(const StateContract& expected, const StateContract& found) {
  Comparison comparison;
  compare_layers(expected.geometry, found.geometry, comparison);
  compare_dims(expected.geometry, found.geometry, comparison);
  comparison.field("recurrent_layout", expected.recurrent_layout, found.recurrent_layout);
  comparison.field("conv_layout", expected.conv_layout, found.conv_layout);
  comparison.field("kv_layout", expected.kv_layout, found.kv_layout);
  comparison.field("head_order", expected.head_order, found.head_order);
  comparison.field("arithmetic version", expected.arithmetic, found.arithmetic);
  comparison.field("model", expected.model, found.model);
  comparison.field("tokens", expected.tokens, found.tokens);
  comparison.field("number of checksums", expected.layers.size(), found.layers.size());
  const std::size_t layers = std::min(expected.layers.size(), found.layers.size());
  for (std::size_t i = 0; i < layers; ++i) {
    comparison.field(fmt::format("checksum of layer {}", i), to_string(expected.layers[i]),
                     to_string(found.layers[i]));
  }
  return comparison.take();
}

bool operator==(const StateContract& a, const StateContract& b) { return difference(a, b).empty(); }

void require_match(const StateContract& expected, const StateContract& found, std::string_view what) {
  const std::string text = difference(expected, found);
  if (!text.empty()) {
    fail(ErrorCode::mismatch, "{} does not fit: {}; rebuild it from the tokens with this model", what, text);
  }
}

}  // namespace tandem
