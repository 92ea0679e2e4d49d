#include <fmt/format.h>

#include "tests/kernels/cases.hpp"

/// Operators of a Gated DeltaNet layer.
namespace tandem::test {
namespace {

/// Operands of a sequence's state, one pair a segment.
struct StateOperands {
  std::vector<std::size_t> in;
  std::vector<std::size_t> out;
};

StateOperands states(CaseBuilder& b, std::size_t count, const Shape& shape) {
  StateOperands operands;
  for (std::size_t i = 0; i < count; ++i) {
    operands.in.push_back(b.packed(fmt::format("state_in[{}]", i), DType::f32, shape));
    operands.out.push_back(b.packed_output(fmt::format("state_out[{}]", i), shape));
  }
  return operands;
}

template <class Segment>
std::vector<Segment> segments_of(const Bound& o, const std::vector<RowRange>& ranges,
                                 const StateOperands& states) {
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    segments.push_back({ranges[i], o[states.in[i]], o[states.out[i]]});
  }
  return segments;
}

}  // namespace

Case gdn_gates_case(CaseBuilder b) {
  const std::int64_t heads = b.large() ? 64 : b.length(129);
  const Shape shape{b.large() ? 400 : b.dice().between(1, 20), heads};
  const std::size_t a = b.activation("a", shape), gate = b.activation("b", shape);
  const std::size_t a_log = b.packed("a_log", DType::f32, Shape{heads});
  const std::size_t dt_bias = b.packed("dt_bias", DType::f32, Shape{heads});
  const std::size_t beta = b.output("beta", shape), g = b.output("g", shape);
  return b.make([=](const Bound& o, const Submit& submit) {
    submit(GdnGates{o[a], o[gate], o[a_log], o[dt_bias], o[beta], o[g]});
  });
}

Case gdn_conv_case(CaseBuilder b) {
  const std::vector<RowRange> ranges = ragged_batch(b);
  const std::int64_t channels = b.large() ? 5000 : b.length(257),
                     taps = b.large() ? 4 : b.dice().between(2, 6);
  const Shape shape{total_rows(ranges), channels};
  const std::size_t x = b.activation("x", shape);
  const std::size_t weight = b.packed("weight", DType::f32, Shape{channels, taps});
  const StateOperands memory = states(b, ranges.size(), Shape{taps - 1, channels});
  const std::size_t y = b.output("y", shape);
  return b.make([=](const Bound& o, const Submit& submit) {
    const auto segments = segments_of<ConvSegment>(o, ranges, memory);
    submit(GdnConv{o[x], o[weight], segments, o[y]});
  });
}

Case gdn_qk_norm_case(CaseBuilder b) {
  const std::int64_t width = b.large() ? 128 : b.length(257);
  const Shape shape{b.large() ? 200 : b.dice().between(1, 9), b.large() ? 16 : b.dice().between(1, 7), width};
  const double eps = b.eps(), scale = b.scale_of(width);
  const std::size_t q_in = b.activation("q_in", shape), k_in = b.activation("k_in", shape);
  const std::size_t q = b.output("q", shape), k = b.output("k", shape);
  return b.make([=](const Bound& o, const Submit& submit) {
    submit(GdnQkNorm{o[q_in], o[k_in], eps, scale, o[q], o[k]});
  });
}

Case gdn_delta_case(CaseBuilder b) {
  const std::vector<RowRange> ranges = ragged_batch(b);
  const std::int64_t n = total_rows(ranges);
  constexpr std::int64_t kMostWork = 250'000;  // multiply-adds of a small case
  std::int64_t key_heads = 12, group = 4, key_dim = 64, value_dim = 80;
  if (!b.large()) {
    do {
      key_heads = b.dice().between(1, 3), group = b.dice().between(1, 4);
      key_dim = b.length(257), value_dim = b.length(129);
    } while (n * key_heads * group * key_dim * value_dim > kMostWork);
  }
  const std::int64_t value_heads = key_heads * group;
  const Shape keys{n, key_heads, key_dim}, values{n, value_heads, value_dim}, gates{n, value_heads};
  const std::size_t q = b.activation("q", keys), k = b.activation("k", keys), v = b.activation("v", values);
  const std::size_t g = b.activation("g", gates), beta = b.activation("beta", gates);
  const StateOperands memory = states(b, ranges.size(), Shape{value_heads, key_dim, value_dim});
  const std::size_t y = b.output("o", values);
  return b.make([=](const Bound& o, const Submit& submit) {
    const auto segments = segments_of<DeltaSegment>(o, ranges, memory);
    submit(GdnDelta{o[q], o[k], o[v], o[g], o[beta], segments, o[y]});
  });
}

Case gdn_gated_norm_case(CaseBuilder b) {
  const std::int64_t width = b.large() ? 128 : b.length(257);
  const Shape shape{b.large() ? 40 : b.dice().between(1, 9), b.large() ? 48 : b.dice().between(1, 9), width};
  const double eps = b.eps();
  const std::size_t x = b.activation("o", shape), z = b.activation("z", shape);
  const std::size_t weight = b.packed("weight", DType::f32, Shape{width});
  const std::size_t y = b.output("y", shape);
  return b.make([=](const Bound& o, const Submit& submit) {
    submit(GdnGatedNorm{o[x], o[z], o[weight], eps, o[y]});
  });
}

}  // namespace tandem::test
