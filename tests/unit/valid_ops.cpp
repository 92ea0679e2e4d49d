#include "tests/unit/valid_ops.hpp"

namespace tandem::test {
namespace {

constexpr std::int64_t kTokens = 6, kGap = 5;

template <class... Sizes>
Tensor real(Sizes... sizes) {
  Tensor t(nullptr, DType::f32, Shape{sizes...});
  t.row_stride += kGap;
  return t;
}

template <class... Sizes>
Tensor packed(DType type, Sizes... sizes) {
  return {nullptr, type, Shape{sizes...}};
}

Tensor heads(std::int64_t count, std::int64_t stride, std::int64_t width) {
  return {nullptr, DType::f32, Shape{kTokens, count, width}, count * stride + kGap};
}

template <class Void>
Operand rows(const char* name, BasicTensor<Void>& t) {
  return {.name = name, .dtype = t.dtype, .shape = t.shape, .row_stride = t.row_stride};
}
template <class Void>
Operand whole(const char* name, BasicTensor<Void>& t) {
  return {.name = name, .dtype = t.dtype, .shape = t.shape, .row_stride = t.row_stride, .packed = true};
}

Operand picked_from(Operand table) {
  return {table.name, table.dtype, table.shape, table.row_stride, table.packed, true};
}

using Operands = std::vector<Operand>;

Operands of(Embed& op) {
  return {whole("ids", op.ids), picked_from(whole("table", op.table)), rows("y", op.y)};
}
Operands of(GatherRows& op) {
  return {picked_from(rows("x", op.x)), whole("rows", op.rows), rows("y", op.y)};
}
Operands of(RmsNorm& op) { return {rows("x", op.x), whole("weight", op.weight), rows("y", op.y)}; }
Operands of(Linear& op) {
  return {rows("x", op.x), whole("weight", op.weight), rows("residual", op.residual), rows("y", op.y)};
}
Operands of(SiluMul& op) { return {rows("gate", op.gate), rows("up", op.up), rows("y", op.y)}; }
Operands of(GdnGates& op) {
  return {rows("a", op.a),       rows("b", op.b), whole("a_log", op.a_log), whole("dt_bias", op.dt_bias),
          rows("beta", op.beta), rows("g", op.g)};
}
Operands of(GdnConv& op) { return {rows("x", op.x), whole("weight", op.weight), rows("y", op.y)}; }
Operands of(GdnQkNorm& op) {
  return {rows("q_in", op.q_in), rows("k_in", op.k_in), rows("q", op.q), rows("k", op.k)};
}
Operands of(GdnDelta& op) {
  return {rows("q", op.q), rows("k", op.k),       rows("v", op.v),
          rows("g", op.g), rows("beta", op.beta), rows("o", op.o)};
}
Operands of(GdnGatedNorm& op) {
  return {rows("o", op.o), rows("z", op.z), whole("weight", op.weight), rows("y", op.y)};
}
Operands of(HeadNormRope& op) {
  return {rows("x", op.x),     whole("weight", op.weight),       rows("cos", op.cos),
          rows("sin", op.sin), whole("positions", op.positions), rows("y", op.y)};
}
Operands of(KvAppend& op) { return {rows("k", op.k), rows("v", op.v)}; }
Operands of(Attention& op) { return {rows("q", op.q), rows("o", op.o)}; }
Operands of(SigmoidGate& op) { return {rows("x", op.x), rows("gate", op.gate), rows("y", op.y)}; }

}  // namespace

ValidOps::ValidOps() {
  const RowRange first{0, 4}, second{4, 2};
  const Tensor conv_state = packed(DType::f32, 3, 9), delta_state = packed(DType::f32, 4, 5, 3);
  conv_ = {{first, conv_state, conv_state}, {second, conv_state, conv_state}};
  delta_ = {{first, delta_state, delta_state}, {second, delta_state, delta_state}};
  pages_.resize(2);
  kv_ = {{first, 12, pages_}, {second, 0, pages_}};
  const DType f32 = DType::f32, bf16 = DType::bf16, i32 = DType::i32;
  all_ = {
      Embed{packed(i32, kTokens), packed(bf16, 20, 7), real(kTokens, 7)},
      GatherRows{real(kTokens, 7), packed(i32, 3), real(3, 7)},
      RmsNorm{real(kTokens, 7), packed(f32, 7), 1e-6, real(kTokens, 7)},
      Linear{real(kTokens, 7), packed(bf16, 4, 7), real(kTokens, 4), real(kTokens, 4)},
      SiluMul{real(kTokens, 7), real(kTokens, 7), real(kTokens, 7)},
      GdnGates{real(kTokens, 4), real(kTokens, 4), packed(f32, 4), packed(f32, 4), real(kTokens, 4),
               real(kTokens, 4)},
      GdnConv{real(kTokens, 9), packed(f32, 9, 4), conv_, real(kTokens, 9)},
      GdnQkNorm{real(kTokens, 2, 5), real(kTokens, 2, 5), 1e-6, 0.4, real(kTokens, 2, 5),
                real(kTokens, 2, 5)},
      GdnDelta{real(kTokens, 2, 5), real(kTokens, 2, 5), real(kTokens, 4, 3), real(kTokens, 4),
               real(kTokens, 4), delta_, real(kTokens, 4, 3)},
      GdnGatedNorm{real(kTokens, 4, 3), real(kTokens, 4, 3), packed(f32, 3), 1e-6, real(kTokens, 4, 3)},
      HeadNormRope{heads(2, 16, 8), 16, packed(f32, 8), 1e-6, real(30, 2), real(30, 2), packed(i32, kTokens),
                   real(kTokens, 2, 8)},
      KvAppend{real(kTokens, 2, 8), real(kTokens, 2, 8), 8, kv_},
      Attention{real(kTokens, 4, 8), 2, 0.35, 8, kv_, real(kTokens, 4, 8)},
      SigmoidGate{real(kTokens, 4, 8), heads(4, 16, 8), 16, real(kTokens, 4, 8)},
  };
}

std::vector<Operand> operands(Op& op) {
  return std::visit([](auto& args) { return of(args); }, op);
}

}  // namespace tandem::test
