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

/// Compares what both have of each head.
PartDifference compare_piece(const LayerPieces& pieces, const StatePiece& piece, std::int64_t a_tokens,
                             Bytes a, std::int64_t b_tokens, Bytes b) {
  const auto heads = static_cast<std::size_t>(piece.heads);
  const auto whole = [&](Bytes layer, std::int64_t tokens) {
    return layer.subspan(static_cast<std::size_t>(pieces.offset_of(piece, tokens)),
                         static_cast<std::size_t>(pieces.bytes_of(piece, tokens, "state bytes")));
  };
  const Bytes in_a = whole(a, a_tokens), in_b = whole(b, b_tokens);
  const std::size_t a_head = in_a.size() / heads, b_head = in_b.size() / heads;
  const std::size_t both = std::min(a_head, b_head);
  PartDifference part{.part = piece.name, .heads = {}};
  for (std::size_t head = 0; head < heads; ++head) {
    const Bytes one = in_a.subspan(head * a_head, both), other = in_b.subspan(head * b_head, both);
    part.heads.push_back(pieces.real == DType::f32 ? compare_elements<float>(one, other)
                                                   : compare_elements<double>(one, other));
  }
  return part;
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
  const std::int64_t a_tokens = a.contract().tokens, b_tokens = b.contract().tokens;
  for (int layer = 0; layer < static_cast<int>(geometry.layers.size()); ++layer) {
    const LayerKind kind = geometry.layers[static_cast<std::size_t>(layer)];
    const LayerPieces pieces = pieces_of(geometry, kind);
    LayerDifference difference{.kind = kind, .parts = {}};
    for (const StatePiece& piece : pieces.list) {
      difference.parts.push_back(
          compare_piece(pieces, piece, a_tokens, a.layer(layer), b_tokens, b.layer(layer)));
    }
    result.layers.push_back(std::move(difference));
  }
  return result;
}

}  // namespace tandem
