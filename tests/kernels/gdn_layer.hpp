#pragma once

#include <vector>

#include "backends/cpu/scalar/gdn_step.hpp"
#include "core/backend.hpp"
#include "tests/kernels/operand.hpp"

namespace tandem::test {

/// A random Gated DeltaNet layer, its inputs and its first state, in host memory.
struct GdnLayer {
  explicit GdnLayer(std::uint64_t seed);

  cpu::GdnSizes sizes;
  std::int64_t tokens;
  /// In the order of cpu::GdnWeights.
  std::vector<Operand> weights;
  Operand x;          ///< [tokens, hidden]
  Operand recurrent;  ///< [Nv, Dk, Dv]
  Operand conv;       ///< [K-1, C]

  std::string text() const;

 private:
  explicit GdnLayer(Dice dice);
};

/// What a layer gives: its outputs and its last state.
struct GdnResult {
  std::vector<float> out;        ///< [tokens, hidden]
  std::vector<float> recurrent;  ///< [Nv, Dk, Dv]
  std::vector<float> conv;       ///< [K-1, C]
};

/// Token by token through q35_gdn_step.
GdnResult step_through(const GdnLayer& layer);

/// The same as operators of a backend, `at_once` tokens a step.
GdnResult submit_layer(Backend& backend, const GdnLayer& layer, std::int64_t at_once);

}  // namespace tandem::test
