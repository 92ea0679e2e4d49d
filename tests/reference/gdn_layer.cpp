#include "tests/reference/gdn_layer.hpp"

#include <cmath>

namespace tandem::test {
namespace {

constexpr double kEps = 1e-6;

double inverse_root(std::int64_t n) { return 1.0 / std::sqrt(static_cast<double>(n)); }

}  // namespace

GdnGeometry::GdnGeometry(const nlohmann::json& facts)
    : hidden(facts.at("H")),
      key_heads(facts.at("kh")),
      key_dim(facts.at("kd")),
      value_heads(facts.at("vh")),
      value_dim(facts.at("vd")),
      taps(facts.at("ck")),
      seed(facts.at("seed")) {}

GdnTrace::GdnTrace(const GdnGeometry& geometry, std::int64_t n)
    : xc(Shape{n, geometry.channels()}),
      xcv(Shape{n, geometry.channels()}),
      z(Shape{n, geometry.value_heads, geometry.value_dim}),
      a(Shape{n, geometry.value_heads}),
      b(Shape{n, geometry.value_heads}),
      beta(Shape{n, geometry.value_heads}),
      g(Shape{n, geometry.value_heads}),
      q(Shape{n, geometry.key_heads, geometry.key_dim}),
      k(Shape{n, geometry.key_heads, geometry.key_dim}),
      on(Shape{n, geometry.value_heads, geometry.value_dim}),
      onn(Shape{n, geometry.value_heads, geometry.value_dim}),
      out(Shape{n, geometry.hidden}) {}

Array<float> generated_weight(std::string_view name, std::uint64_t seed, Shape shape, double scale,
                              double shift) {
  const CounterRandom random(name, seed);
  Array<float> array(shape);
  float* values = array.row(0);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    values[i] = static_cast<float>(random.normal(static_cast<std::uint64_t>(i)) * scale + shift);
  }
  return array;
}

Array<double> generated_inputs(const GdnGeometry& g, std::int64_t tokens) {
  const CounterRandom random("x", g.seed);
  Array<double> x(Shape{tokens, g.hidden});
  double* values = x.row(0);
  for (std::int64_t i = 0; i < tokens * g.hidden; ++i) {
    const double u = random.normal(static_cast<std::uint64_t>(i));
    values[i] = static_cast<float>(u * u * u * 0.5);
  }
  return x;
}

GdnLayer::GdnLayer(const GdnGeometry& g)
    : geometry(g),
      in_proj_qkv(
          generated_weight("in_proj_qkv.weight", g.seed, {g.channels(), g.hidden}, inverse_root(g.hidden))),
      in_proj_z(
          generated_weight("in_proj_z.weight", g.seed, {g.value_width(), g.hidden}, inverse_root(g.hidden))),
      in_proj_b(
          generated_weight("in_proj_b.weight", g.seed, {g.value_heads, g.hidden}, inverse_root(g.hidden))),
      in_proj_a(
          generated_weight("in_proj_a.weight", g.seed, {g.value_heads, g.hidden}, inverse_root(g.hidden))),
      conv1d(generated_weight("conv1d.weight", g.seed, {g.channels(), g.taps}, 0.5)),
      a_log(generated_weight("A_log", g.seed, {g.value_heads}, 1, 0.5)),
      dt_bias(generated_weight("dt_bias", g.seed, {g.value_heads}, 1, -1)),
      norm(generated_weight("norm.weight", g.seed, {g.value_dim}, 0.2, 1)),
      out_proj(generated_weight("out_proj.weight", g.seed, {g.hidden, g.value_width()},
                                inverse_root(g.value_width()))) {}

GdnTrace GdnLayer::run(Backend& backend, ConstTensor x, const GdnState& in, GdnState& out) const {
  const GdnGeometry& g = geometry;
  const std::int64_t n = x.rows();
  GdnTrace t(g, n);
  const auto flat = [n](Array<double>& array) {
    const Tensor view = array.view();
    return Tensor(view.data, view.dtype, Shape{n, view.row_elements()}, view.row_stride);
  };
  backend.submit(Linear{x, in_proj_qkv.view(), {}, t.xc.view()});
  backend.submit(Linear{x, in_proj_z.view(), {}, flat(t.z)});
  backend.submit(Linear{x, in_proj_b.view(), {}, t.b.view()});
  backend.submit(Linear{x, in_proj_a.view(), {}, t.a.view()});

  const ConvSegment conv{{0, n}, in.conv.view(), out.conv.view()};
  backend.submit(GdnConv{t.xc.view(), conv1d.view(), {&conv, 1}, t.xcv.view()});
  const ConstTensor mixed = t.xcv.view();
  const ConstTensor q = mixed.columns(0, g.key_width()).view_rows(g.key_heads, g.key_dim);
  const ConstTensor k = mixed.columns(g.key_width(), g.key_width()).view_rows(g.key_heads, g.key_dim);
  const ConstTensor v =
      mixed.columns(2 * g.key_width(), g.value_width()).view_rows(g.value_heads, g.value_dim);

  backend.submit(GdnGates{t.a.view(), t.b.view(), a_log.view(), dt_bias.view(), t.beta.view(), t.g.view()});
  GdnQkNorm qk_norm{.q_in = q, .k_in = k, .q = t.q.view(), .k = t.k.view()};
  qk_norm.eps = kEps;
  qk_norm.scale = inverse_root(g.key_dim);
  backend.submit(qk_norm);

  const DeltaSegment delta{{0, n}, in.delta.view(), out.delta.view()};
  backend.submit(GdnDelta{t.q.view(), t.k.view(), v, t.g.view(), t.beta.view(), {&delta, 1}, t.on.view()});
  GdnGatedNorm gated_norm{.o = t.on.view(), .z = t.z.view(), .weight = norm.view(), .y = t.onn.view()};
  gated_norm.eps = kEps;
  backend.submit(gated_norm);
  backend.submit(Linear{flat(t.onn), out_proj.view(), {}, t.out.view()});
  return t;
}

}  // namespace tandem::test
