#include "state/snapshot_diff.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.hpp"

namespace tandem {
namespace {

using Bytes = std::span<const std::byte>;

template <class Real>
ElementDifference compare_elements(Bytes a, Bytes b) {
  ElementDifference result;
  result.elements = static_cast<std::int64_t>(a.size() / sizeof(Real));
  for (std::size_t at = 0; at < a.size(); at += sizeof(Real)) {
    if (std::memcmp(&a[at], &b[at], sizeof(Real)) == 0) continue;
    Real x, y;
    std::memcpy(&x, &a[at], sizeof x);
    std::memcpy(&y, &b[at], sizeof y);
    const double distance = std::abs(static_cast<double>(x) - static_cast<double>(y));
    ++result.different;
    result.largest =
        std::max(result.largest, std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance);
  }
  return result;
}

/// Heads of `bytes` each that lie a_stride and b_stride bytes apart.
PartDifference compare_part(std::string_view name, DType real, std::int64_t heads, std::size_t bytes, Bytes a,
                            std::size_t a_stride, Bytes b, std::size_t b_stride) {
  PartDifference part{.part = name, .heads = {}};
  for (std::size_t head = 0; head < static_cast<std::size_t>(heads); ++head) {
    const Bytes in_a = a.subspan(head * a_stride, bytes), in_b = b.subspan(head * b_stride, bytes);
    part.heads.push_back(real == DType::f32 ? compare_elements<float>(in_a, in_b)
                                            : compare_elements<double>(in_a, in_b));
  }
  return part;
}

LayerDifference compare_recurrent(const StateGeometry& geometry, Bytes a, Bytes b) {
  const auto state = static_cast<std::size_t>(geometry.recurrent_bytes());
  const std::int64_t heads = geometry.recurrent.value_heads;
  const std::size_t head = state / static_cast<std::size_t>(heads), conv = a.size() - state;
  LayerDifference layer{.kind = LayerKind::recurrent, .parts = {}};
  layer.parts.push_back(compare_part("recurrent", geometry.real, heads, head, a, head, b, head));
  layer.parts.push_back(
      compare_part("conv", geometry.real, 1, conv, a.subspan(state), conv, b.subspan(state), conv));
  return layer;
}

LayerDifference compare_kv(const StateGeometry& geometry, std::size_t a_tokens, Bytes a, std::size_t b_tokens,
                           Bytes b) {
  const std::size_t row = static_cast<std::size_t>(geometry.kv.head_dim) * size_of(geometry.real);
  const std::size_t both = std::min(a_tokens, b_tokens) * row;
  LayerDifference layer{.kind = LayerKind::kv, .parts = {}};
  const auto add = [&](std::string_view name, Bytes in_a, Bytes in_b) {
    layer.parts.push_back(compare_part(name, geometry.real, geometry.kv.kv_heads, both, in_a, a_tokens * row,
                                       in_b, b_tokens * row));
  };
  add("keys", a.first(a.size() / 2), b.first(b.size() / 2));
  add("values", a.subspan(a.size() / 2), b.subspan(b.size() / 2));
  return layer;
}

/// A contract of what the bytes mean alone.
StateContract meaning_of(const Snapshot& snapshot) {
  StateContract contract = snapshot.contract();
  contract.arithmetic = kArithmeticVersion;  // other values, in the same places
  contract.tokens = 0;
  contract.model.clear();
  contract.layers.clear();
  return contract;
}

StateContract without_checksums(StateContract contract) {
  contract.layers.clear();
  return contract;
}

std::optional<std::int64_t> first_different_id(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (in_a == a.end() && in_b == b.end()) return {};
  return in_a - a.begin();
}

}  // namespace

void ElementDifference::add(const ElementDifference& other) {
  elements += other.elements;
  different += other.different;
  largest = std::max(largest, other.largest);
}

ElementDifference PartDifference::total() const {
  ElementDifference sum;
  for (const ElementDifference& head : heads) sum.add(head);
  return sum;
}

bool LayerDifference::any() const {
  return std::ranges::any_of(parts, [](const PartDifference& part) { return part.total().different > 0; });
}

bool SnapshotDifference::any() const {
  return !contract.empty() || first_id || sampling || unsafe ||
         std::ranges::any_of(layers, &LayerDifference::any);
}

SnapshotDifference compare(const Snapshot& a, const Snapshot& b) {
  if (const std::string text = difference(meaning_of(a), meaning_of(b)); !text.empty()) {
    fail(ErrorCode::mismatch, "{} and {} cannot be compared: {}", a.where(), b.where(), text);
  }
  SnapshotDifference result;
  result.contract = difference(without_checksums(a.contract()), without_checksums(b.contract()));
  result.first_id = first_different_id(a.ids(), b.ids());
  result.sampling = a.sampling() != b.sampling();
  result.unsafe = a.unsafe() != b.unsafe();
  const StateGeometry& geometry = a.contract().geometry;
  const auto a_tokens = static_cast<std::size_t>(a.contract().tokens);
  const auto b_tokens = static_cast<std::size_t>(b.contract().tokens);
  for (int layer = 0; layer < static_cast<int>(geometry.layers.size()); ++layer) {
    const Bytes in_a = a.layer(layer), in_b = b.layer(layer);
    result.layers.push_back(geometry.layers[layer] == LayerKind::recurrent
                                ? compare_recurrent(geometry, in_a, in_b)
                                : compare_kv(geometry, a_tokens, in_a, b_tokens, in_b));
  }
  return result;
}

}  // namespace tandem
