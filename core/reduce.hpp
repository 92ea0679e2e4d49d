#pragma once

#include "core/numerics.hpp"

/// The reductions of core/README.md ("One arithmetic") as plain loops: the definition that every kernel's
/// bits are compared with. A reduction's shape depends on its length and its element type alone.
namespace tandem::num {

inline constexpr int kLanes = 32;

/// Elements of one 16-byte load.
template <class T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));

/// Chains of a dot product over elements T.
template <class T>
inline constexpr int kChains = kLanes* kVector<T>;

/// Joins 2^k neighbours as a balanced tree, in place; the sum is values[0].
TANDEM_FN float join_neighbours(float* values, int count) {
  for (int width = 1; width < count; width *= 2) {
    for (int i = 0; i + width < count; i += 2 * width) values[i] = values[i] + values[i + width];
  }
  return values[0];
}

/// Joins the 32 lanes: lane l takes lane l + o for o = 16, 8, 4, 2, 1. A GPU's butterfly (l xor o) gives the
/// same bits, since addition commutes.
TANDEM_FN float join_lanes(float* lanes) {
  for (int o = kLanes / 2; o > 0; o /= 2) {
    for (int l = 0; l < o; ++l) lanes[l] = lanes[l] + lanes[l + o];
  }
  return lanes[0];
}

/// Joins the chains of a dot product: each lane's own as a tree of neighbours, then the lanes.
template <class T>
TANDEM_FN float join_chains(float* chains) {
  float lanes[kLanes];
  for (int l = 0; l < kLanes; ++l) lanes[l] = join_neighbours(chains + l * kVector<T>, kVector<T>);
  return join_lanes(lanes);
}

/// sum of w[i] * x[i]. Chain c takes the elements i with i mod C = c in increasing i, each by one fma from
/// +0.
template <class T>
TANDEM_FN float dot(const T* w, const float* x, std::int64_t n) {
  float chains[kChains<T>] = {};
  for (std::int64_t i = 0; i < n; ++i) {
    float& chain = chains[i % kChains<T>];
    chain = fma(widen(w[i]), x[i], chain);
  }
  return join_chains<T>(chains);
}

/// sum of x[i]^2: a dot product of f32 elements.
TANDEM_FN float sum_of_squares(const float* x, std::int64_t n) { return dot(x, x, n); }

}  // namespace tandem::num
