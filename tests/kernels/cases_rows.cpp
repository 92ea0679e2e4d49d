#include "tests/kernels/cases.hpp"

/// Operators that look at one row at a time.
namespace tandem::test {

Case embed_case(CaseBuilder b) {
  const std::int64_t n = b.large() ? 300 : b.dice().between(1, 20), width = b.large() ? 2000 : b.length(1000);
  const std::int64_t vocabulary = b.dice().between(1, 40);
  const std::size_t ids = b.indices("ids", n, vocabulary);
  const std::size_t table = b.matrix("table", Shape{vocabulary, width});
  const std::size_t y = b.output("y", Shape{n, width});
  return b.make([=](const Bound& o, const Submit& submit) { submit(Embed{o[ids], o[table], o[y]}); });
}

Case gather_rows_case(CaseBuilder b) {
  const std::int64_t n = b.dice().between(1, 40), width = b.large() ? 2000 : b.length(1000);
  const std::int64_t m = b.large() ? 300 : b.dice().between(1, 20);
  const std::size_t x = b.activation("x", Shape{n, width});
  const std::size_t rows = b.indices("rows", m, n);
  const std::size_t y = b.output("y", Shape{m, width});
  return b.make([=](const Bound& o, const Submit& submit) { submit(GatherRows{o[x], o[rows], o[y]}); });
}

Case rms_norm_case(CaseBuilder b) {
  const std::int64_t n = b.large() ? 100 : b.dice().between(1, 9), width = b.large() ? 4001 : b.length(1000);
  const double eps = b.eps();
  const std::size_t x = b.activation("x", Shape{n, width});
  const std::size_t weight = b.packed("weight", DType::f32, Shape{width});
  const std::size_t y = b.output("y", Shape{n, width});
  return b.make([=](const Bound& o, const Submit& submit) { submit(RmsNorm{o[x], o[weight], eps, o[y]}); });
}

namespace {

/// Sizes of a projection, and how it takes its weights and activations.
struct LinearForm {
  DType weight = DType::f32;
  Activations activations = Activations::real;
  std::int64_t tokens = 0, in = 0, out = 0;
};

LinearForm q4_form(CaseBuilder& b, Activations activations) {
  LinearForm form{DType::q4, activations};
  form.tokens = b.large() ? 40 : b.dice().pick<std::int64_t>({1, 1, 1, 2, 3, 4, 5, 6, 8, 9, 64, 65});
  form.in = b.large() ? 544 : b.q4_columns(form.tokens > 9 ? 1056 : 5120);
  form.out = b.large() ? 700 : b.dice().between(1, 40);
  if (activations == Activations::q8) b.note("activations in 8 bits ");
  return form;
}

LinearForm linear_form(CaseBuilder& b) {
  const std::uint64_t gear = b.form(4);
  if (gear >= 2) return q4_form(b, gear == 2 ? Activations::real : Activations::q8);
  LinearForm form{gear == 0 ? DType::f32 : DType::bf16};
  form.tokens = b.large() ? 40 : b.dice().between(1, 9);
  form.in = b.large() ? 513 : b.length(1000);
  form.out = b.large() ? 700 : b.dice().between(1, 40);
  return form;
}

}  // namespace

Case linear_case(CaseBuilder b) {
  const LinearForm form = linear_form(b);
  const std::size_t x = b.activation("x", Shape{form.tokens, form.in});
  const Shape matrix{form.out, form.in};
  const std::size_t weight =
      form.weight == DType::q4 ? b.q4_matrix("weight", matrix) : b.packed("weight", form.weight, matrix);
  enum class Residual { absent, separate, in_place };
  const auto residual = b.dice().pick({Residual::absent, Residual::separate, Residual::in_place});
  const Shape shape{form.tokens, form.out};
  const std::size_t y = residual == Residual::in_place ? b.updated("y", shape) : b.output("y", shape);
  const std::size_t added = residual == Residual::separate ? b.activation("residual", shape) : y;
  b.note(residual == Residual::in_place ? "residual is y" : "");
  return b.make([=](const Bound& o, const Submit& submit) {
    submit(Linear{o[x], o[weight], residual == Residual::absent ? ConstTensor{} : ConstTensor(o[added]), o[y],
                  form.activations});
  });
}

Case silu_mul_case(CaseBuilder b) {
  const Shape shape{b.large() ? 100 : b.dice().between(1, 9), b.large() ? 1500 : b.length(1000)};
  const std::size_t gate = b.activation("gate", shape);
  const std::size_t up = b.activation("up", shape);
  const std::size_t y = b.output("y", shape);
  return b.make([=](const Bound& o, const Submit& submit) { submit(SiluMul{o[gate], o[up], o[y]}); });
}

Case sigmoid_gate_case(CaseBuilder b) {
  const std::int64_t n = b.large() ? 100 : b.dice().between(1, 9),
                     heads = b.large() ? 16 : b.dice().between(1, 9);
  const std::int64_t width = b.large() ? 128 : b.length(256);
  const std::int64_t head_stride = b.dice().pick({width, 2 * width, width + b.dice().between(1, 9)});
  const Shape shape{n, heads, width};
  const std::size_t x = b.activation("x", shape);
  const std::size_t gate = b.spread_heads("gate", shape, head_stride);
  const std::size_t y = b.output("y", shape);
  return b.make([=](const Bound& o, const Submit& submit) {
    submit(SigmoidGate{o[x], o[gate], head_stride, o[y]});
  });
}

}  // namespace tandem::test
