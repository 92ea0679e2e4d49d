#include "tests/kernels/gdn_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace tandem::test {
namespace {

Operand filled(const char* name, DType dtype, const Shape& shape, Values kind, Dice& dice) {
  Operand operand(name, dtype, shape, Layout{}, Access::read);
  operand.fill(kind, dice);
  return operand;
}

cpu::GdnSizes draw_sizes(Dice& dice) {
  cpu::GdnSizes s;
  s.hidden = dice.between(1, 130);
  s.key_heads = dice.between(1, 3);
  s.value_heads = s.key_heads * dice.between(1, 4);
  s.key_dim = dice.between(1, 100);
  s.value_dim = dice.between(1, 70);
  s.conv_kernel = dice.between(2, 6);
  return s;
}

std::vector<Operand> draw_weights(const cpu::GdnSizes& s, Dice& dice) {
  std::vector<Operand> weights;
  const auto matrix = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    weights.push_back(
        filled(name, dice.pick({DType::f32, DType::bf16}), Shape{rows, columns}, Values::ordinary, dice));
  };
  const auto vector = [&](const char* name, const Shape& shape) {
    weights.push_back(filled(name, DType::f32, shape, Values::ordinary, dice));
  };
  matrix("in_proj_qkv", s.channels(), s.hidden);
  matrix("in_proj_z", s.values(), s.hidden);
  matrix("in_proj_b", s.value_heads, s.hidden);
  matrix("in_proj_a", s.value_heads, s.hidden);
  vector("conv1d", Shape{s.channels(), s.conv_kernel});
  vector("a_log", Shape{s.value_heads});
  vector("dt_bias", Shape{s.value_heads});
  vector("norm", Shape{s.value_dim});
  matrix("out_proj", s.hidden, s.values());
  return weights;
}

/// `at` gives each weight's place in the memory that is wanted.
template <class At>
cpu::GdnWeights weights_at(const GdnLayer& layer, const At& at) {
  cpu::GdnWeights w;
  ConstTensor* all[] = {&w.in_proj_qkv, &w.in_proj_z, &w.in_proj_b, &w.in_proj_a, &w.conv1d,
                        &w.a_log,       &w.dt_bias,   &w.norm,      &w.out_proj};
  for (std::size_t i = 0; i < layer.weights.size(); ++i) *all[i] = at(layer.weights[i]);
  return w;
}

ConstTensor in_host(const Operand& operand) {
  return operand.at(
      const_cast<std::byte*>(operand.memory().data()));  // at() has no read-only form; nobody writes here
}

std::vector<float> values_of(const Operand& operand) {
  std::vector<float> values(operand.memory().size() / sizeof(float));
  std::memcpy(values.data(), operand.memory().data(), operand.memory().size());
  return values;
}

/// Tensors of one layer in a backend's memory.
class OnBackend {
 public:
  explicit OnBackend(Backend& backend) : backend_(backend) {}

  Tensor put(const Operand& operand) {
    Tensor t = operand.at(allocate(operand.memory().size()));
    backend_.upload(t.data, operand.memory().data(), operand.memory().size());
    return t;
  }
  Tensor make(const Shape& shape) {
    return {allocate(static_cast<std::size_t>(shape.elements()) * sizeof(float)), DType::f32, shape};
  }
  std::vector<float> get(const Tensor& t) {
    std::vector<float> values(static_cast<std::size_t>(t.shape.elements()));
    backend_.download(values.data(), t.data, values.size() * sizeof(float));
    return values;
  }

 private:
  void* allocate(std::size_t bytes) {
    buffers_.push_back(backend_.allocate(bytes));
    return buffers_.back().data();
  }

  Backend& backend_;
  std::vector<Buffer> buffers_;
};

/// A state of the layer and the one that the next step writes.
struct States {
  Tensor recurrent_in, recurrent_out, conv_in, conv_out;

  void turn() { std::swap(recurrent_in, recurrent_out), std::swap(conv_in, conv_out); }
};

/// The layer's operators for the tokens of one step, x -> out.
void submit_step(Backend& backend, OnBackend& memory, const cpu::GdnSizes& s, const cpu::GdnWeights& w,
                 const States& states, const Tensor& x, const Tensor& out) {
  const std::int64_t n = x.rows();
  const RowRange all{0, n};
  const auto project = [&](const ConstTensor& weight) {
    const Tensor y = memory.make(Shape{n, weight.shape[0]});
    backend.submit(Linear{x, weight, {}, y});
    return y;
  };
  const Tensor xc = project(w.in_proj_qkv), z = project(w.in_proj_z), b = project(w.in_proj_b),
               a = project(w.in_proj_a);
  const Tensor beta = memory.make(Shape{n, s.value_heads}), g = memory.make(Shape{n, s.value_heads});
  backend.submit(GdnGates{a, b, w.a_log, w.dt_bias, beta, g});

  const Tensor xcv = memory.make(Shape{n, s.channels()});
  const ConvSegment conv[] = {{all, states.conv_in, states.conv_out}};
  backend.submit(GdnConv{xc, w.conv1d, conv, xcv});

  const Tensor q = memory.make(Shape{n, s.key_heads, s.key_dim}),
               k = memory.make(Shape{n, s.key_heads, s.key_dim});
  const Tensor q_in = xcv.columns(0, s.keys()).view_rows(s.key_heads, s.key_dim);
  const Tensor k_in = xcv.columns(s.keys(), s.keys()).view_rows(s.key_heads, s.key_dim);
  backend.submit(GdnQkNorm{q_in, k_in, s.qk_eps, 1.0 / std::sqrt(static_cast<double>(s.key_dim)), q, k});

  const Tensor v = xcv.columns(2 * s.keys(), s.values()).view_rows(s.value_heads, s.value_dim);
  const Tensor o = memory.make(Shape{n, s.value_heads, s.value_dim}), y = memory.make(o.shape);
  const DeltaSegment delta[] = {{all, states.recurrent_in, states.recurrent_out}};
  backend.submit(GdnDelta{q, k, v, g, beta, delta, o});
  backend.submit(GdnGatedNorm{o, z.view_rows(s.value_heads, s.value_dim), w.norm, s.norm_eps, y});
  const Tensor flat(y.data, DType::f32, Shape{n, s.values()});
  backend.submit(Linear{flat, w.out_proj, {}, out});
}

}  // namespace

GdnLayer::GdnLayer(std::uint64_t seed) : GdnLayer(Dice("gdn_layer", seed)) {}

GdnLayer::GdnLayer(Dice dice)
    : sizes(draw_sizes(dice)),
      tokens(dice.between(1, 7)),
      weights(draw_weights(sizes, dice)),
      x(filled("x", DType::f32, Shape{tokens, sizes.hidden}, Values::heavy_tailed, dice)),
      recurrent(filled("recurrent", DType::f32, Shape{sizes.value_heads, sizes.key_dim, sizes.value_dim},
                       Values::ordinary, dice)),
      conv(filled("conv", DType::f32, Shape{sizes.conv_kernel - 1, sizes.channels()}, Values::ordinary,
                  dice)) {}

std::string GdnLayer::text() const {
  return fmt::format("hidden {}, {} x {} keys, {} x {} values, {} taps, {} tokens", sizes.hidden,
                     sizes.key_heads, sizes.key_dim, sizes.value_heads, sizes.value_dim, sizes.conv_kernel,
                     tokens);
}

GdnResult step_through(const GdnLayer& layer) {
  const cpu::GdnWeights weights = weights_at(layer, in_host);
  GdnResult result{std::vector<float>(static_cast<std::size_t>(layer.tokens * layer.sizes.hidden)),
                   values_of(layer.recurrent), values_of(layer.conv)};
  std::vector<float> recurrent(result.recurrent.size()), conv(result.conv.size());
  cpu::GdnTrace trace;
  for (std::int64_t t = 0; t < layer.tokens; ++t) {
    const cpu::GdnState state{result.recurrent.data(), recurrent.data(), result.conv.data(), conv.data()};
    cpu::q35_gdn_step(layer.sizes, weights, in_host(layer.x).row<float>(t), state, trace,
                      result.out.data() + t * layer.sizes.hidden);
    recurrent.swap(result.recurrent), conv.swap(result.conv);
  }
  return result;
}

GdnResult submit_layer(Backend& backend, const GdnLayer& layer, std::int64_t at_once) {
  OnBackend memory(backend);
  const cpu::GdnWeights weights =
      weights_at(layer, [&](const Operand& w) -> ConstTensor { return memory.put(w); });
  const Tensor x = memory.put(layer.x), out = memory.make(x.shape);
  States states{memory.put(layer.recurrent), {}, memory.put(layer.conv), {}};
  states.recurrent_out = memory.make(states.recurrent_in.shape),
  states.conv_out = memory.make(states.conv_in.shape);
  for (std::int64_t t = 0; t < layer.tokens; t += at_once) {
    const std::int64_t n = std::min(at_once, layer.tokens - t);
    submit_step(backend, memory, layer.sizes, weights, states, x.slice_rows(t, n), out.slice_rows(t, n));
    states.turn();
  }
  return {memory.get(out), memory.get(states.recurrent_in), memory.get(states.conv_in)};
}

}  // namespace tandem::test
