#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/backend.hpp"
#include "tests/reference/support.hpp"

namespace tandem::test {

/// Sizes of a Gated DeltaNet layer and the seed of its weights, from an oracle's facts.
struct GdnGeometry {
  explicit GdnGeometry(const nlohmann::json& facts);

  std::int64_t key_width() const { return key_heads * key_dim; }
  std::int64_t value_width() const { return value_heads * value_dim; }
  std::int64_t channels() const { return 2 * key_width() + value_width(); }

  std::int64_t hidden, key_heads, key_dim, value_heads, value_dim, taps;
  std::uint64_t seed;
};

/// What the layer remembers between steps.
struct GdnState {
  explicit GdnState(const GdnGeometry& g)
      : conv(Shape{g.taps - 1, g.channels()}), delta(Shape{g.value_heads, g.key_dim, g.value_dim}) {}

  Array<double> conv, delta;
};

/// All that a step computes, under the oracle's names, one row a token.
struct GdnTrace {
  GdnTrace(const GdnGeometry& g, std::int64_t tokens);

  Array<double> xc, xcv, z, a, b, beta, g, q, k, on, onn, out;
};

/// float(normal(i) * scale + shift) of the stream `name`: how the oracle's weights were made.
Array<float> generated_weight(std::string_view name, std::uint64_t seed, Shape shape, double scale,
                              double shift = 0);
/// The oracle's inputs, [tokens, hidden]: float(u^3 / 2), heavy-tailed as real activations are.
Array<double> generated_inputs(const GdnGeometry& g, std::int64_t tokens);

/// One layer with generated weights, driven operator by operator.
class GdnLayer {
 public:
  explicit GdnLayer(const GdnGeometry& geometry);

  /// Runs the layer over all rows of x, as one sequence, from `in` to `out`.
  GdnTrace run(Backend& backend, ConstTensor x, const GdnState& in, GdnState& out) const;

  const GdnGeometry geometry;
  const Array<float> in_proj_qkv, in_proj_z, in_proj_b, in_proj_a, conv1d, a_log, dt_bias, norm, out_proj;
};

}  // namespace tandem::test
