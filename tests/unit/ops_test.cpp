#include "core/ops.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <type_traits>

#include "core/error.hpp"
#include "tests/unit/valid_ops.hpp"

namespace tandem {
namespace {

using test::Operand;
using testing::HasSubstr;
using testing::StartsWith;

/// "" if the operator is accepted, else the message.
std::string refusal(const Op& op, DType real = DType::f32) {
  try {
    validate(op, real);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    return error.what();
  }
}

/// Changes each operand of each operator in turn and hands the operator and the operand's name to `check`.
template <class Change, class Check>
void for_each_changed(const Change& change, const Check& check) {
  const test::ValidOps valid;
  for (const Op& right : valid.all()) {
    Op counted = right;
    const std::size_t count = test::operands(counted).size();
    for (std::size_t i = 0; i < count; ++i) {
      Op op = right;
      const Operand operand = test::operands(op)[i];
      if (change(operand)) check(op, operand.name);
    }
  }
}

void expect_names_the_operand(const Op& op, const char* operand) {
  EXPECT_THAT(refusal(op), StartsWith(fmt::format("{}: {} ", name(kind_of(op)), operand)));
}

void expect_names_the_operator(const Op& op, const char* operand) {
  EXPECT_THAT(refusal(op), StartsWith(fmt::format("{}: ", name(kind_of(op))))) << operand;
}

TEST(Validate, TakesWhatIsRight) {
  const test::ValidOps valid;
  ASSERT_EQ(valid.all().size(), static_cast<std::size_t>(kOpKinds));
  for (const Op& op : valid.all()) EXPECT_EQ(refusal(op), "");
}

TEST(Validate, RefusesAnotherElementType) {
  for_each_changed([](const Operand& t) { return t.dtype = DType::f16, true; }, expect_names_the_operand);
  for_each_changed(
      [](const Operand& t) { return t.dtype = t.dtype == DType::i32 ? DType::f32 : DType::i32, true; },
      expect_names_the_operand);
}

TEST(Validate, RefusesActivationsOfAnotherBackend) {
  const test::ValidOps valid;
  for (const Op& op : valid.all()) EXPECT_THAT(refusal(op, DType::f64), HasSubstr("f32, expected f64"));
}

TEST(Validate, RefusesAnotherRank) {
  const auto drop = [](const Operand& t) { return --t.shape.rank, t.shape.rank > 0; };
  const auto add = [](const Operand& t) {
    return t.shape.dims[static_cast<std::size_t>(t.shape.rank++)] = 1, true;
  };
  for_each_changed(drop, expect_names_the_operator);
  for_each_changed(add, expect_names_the_operator);
}

TEST(Validate, RefusesAnotherSizeInAnyDimension) {
  for (std::size_t dim = 0; dim < 3; ++dim) {
    const auto grow = [&](const Operand& t) {
      if (static_cast<int>(dim) >= t.shape.rank) return false;
      if (dim == 0 && t.any_rows) return false;
      // Wider rows want a wider stride, or that is what is complained about.
      t.shape.dims[dim] += 1, t.row_stride = t.shape.elements_from(1) + (t.packed ? 0 : 30);
      return true;
    };
    for_each_changed(grow, expect_names_the_operator);
  }
}

TEST(Validate, RefusesRowsThatOverlap) {
  for_each_changed(
      [](const Operand& t) { return t.row_stride = t.shape.elements_from(1) - 1, t.shape.rank > 1; },
      expect_names_the_operand);
}

TEST(Validate, RefusesGapsInWeights) {
  for_each_changed([](const Operand& t) { return t.row_stride += 1, t.packed; }, expect_names_the_operand);
}

TEST(Validate, OneRowMayHaveAnyStride) {
  const Tensor x(nullptr, DType::f32, Shape{1, 8}, 0);
  EXPECT_EQ(refusal(SiluMul{x, x, x}), "");
}

TEST(Validate, ResidualMayBeAbsent) {
  const test::ValidOps valid;
  Linear op = valid.get<Linear>();
  op.residual = {};
  EXPECT_EQ(refusal(op), "");
}

template <class Args, class Change>
std::string refusal_of(const Change& change) {
  const test::ValidOps valid;
  Args op = valid.get<Args>();
  change(op);
  return refusal(op);
}

TEST(Validate, RefusesNumbersThatMakeNoSense) {
  EXPECT_EQ(refusal_of<RmsNorm>([](auto& op) { op.eps = 0; }),
            "rms_norm: eps is 0, expected a positive number");
  EXPECT_THAT(refusal_of<GdnQkNorm>([](auto& op) { op.eps = -1; }), HasSubstr("gdn_qk_norm: eps is -1"));
  EXPECT_THAT(refusal_of<GdnQkNorm>([](auto& op) { op.scale = 0; }), HasSubstr("scale is 0"));
  EXPECT_THAT(refusal_of<GdnGatedNorm>([](auto& op) { op.eps = __builtin_nan(""); }),
              HasSubstr("eps is nan"));
  EXPECT_THAT(refusal_of<HeadNormRope>([](auto& op) { op.eps = 0; }), HasSubstr("eps"));
  EXPECT_THAT(refusal_of<Attention>([](auto& op) { op.scale = 0; }), HasSubstr("scale"));
  EXPECT_THAT(refusal_of<Attention>([](auto& op) { op.page_tokens = 0; }), HasSubstr("page_tokens is 0"));
  EXPECT_THAT(refusal_of<KvAppend>([](auto& op) { op.page_tokens = -8; }), HasSubstr("page_tokens is -8"));
}

TEST(Validate, RefusesHeadsThatDoNotDivide) {
  EXPECT_EQ(refusal_of<Attention>([](auto& op) { op.kv_heads = 3; }),
            "attention: kv heads in query heads: 3 does not divide 4");
  EXPECT_THAT(refusal_of<Attention>([](auto& op) { op.kv_heads = 0; }), HasSubstr("0 does not divide 4"));
  EXPECT_THAT(refusal_of<GdnDelta>([](auto& op) { op.q.shape.dims[1] = op.k.shape.dims[1] = 3; }),
              AllOf(StartsWith("gdn_delta: "), HasSubstr("3 does not divide 4")));
}

TEST(Validate, RefusesHeadsThatOverlap) {
  EXPECT_THAT(refusal_of<HeadNormRope>([](auto& op) { op.head_stride = 7; }),
              HasSubstr("x has heads 7 elements apart that are 8 long"));
  EXPECT_THAT(refusal_of<SigmoidGate>([](auto& op) { op.head_stride = 7; }), HasSubstr("gate has heads 7"));
  EXPECT_THAT(refusal_of<SigmoidGate>([](auto& op) { op.gate.row_stride = 3 * 16 + 7; }),
              HasSubstr("gate has rows 55 elements apart, too close for 4 heads"));
}

TEST(Validate, RefusesARotationWiderThanTheHead) {
  EXPECT_THAT(refusal_of<HeadNormRope>([](auto& op) { op.cos.shape.dims[1] = op.sin.shape.dims[1] = 5; }),
              HasSubstr("rotates 10 elements of heads of 8"));
}

TEST(Validate, RefusesConvolutionsThatDoNotFit) {
  for (std::int64_t taps : {std::int64_t{1}, kMaxConvTaps + 1}) {
    EXPECT_THAT(
        refusal_of<GdnConv>([&](auto& op) { op.weight.shape.dims[1] = taps, op.weight.row_stride = taps; }),
        HasSubstr(fmt::format("a convolution of {} taps, expected 2 to 16", taps)));
  }
}

TEST(Validate, RefusesKeyHeadsThatNoWarpCanHold) {
  EXPECT_THAT(refusal_of<GdnDelta>([](auto& op) {
                for (ConstTensor* t : {&op.q, &op.k}) t->shape.dims[2] = 1025, t->row_stride = 2 * 1025;
              }),
              HasSubstr("key heads of 1025, expected at most 1024"));
}

template <class Args>
std::string refusal_with(const decltype(Args::segments)& segments) {
  return refusal_of<Args>([&](auto& op) { op.segments = segments; });
}

template <class Args>
class ValidateSegments : public testing::Test {
 public:
  using Segment = std::remove_const_t<typename decltype(Args::segments)::element_type>;

  /// The operator's segments with the given rows.
  static std::string refusal(const std::vector<RowRange>& ranges) {
    const test::ValidOps valid;
    std::vector<Segment> segments(ranges.size(), valid.get<Args>().segments[0]);
    for (std::size_t i = 0; i < ranges.size(); ++i) segments[i].range = ranges[i];
    return refusal_with<Args>(segments);
  }
};

using WithSegments = testing::Types<GdnConv, GdnDelta, KvAppend, Attention>;
TYPED_TEST_SUITE(ValidateSegments, WithSegments);

TYPED_TEST(ValidateSegments, TakesRowsInOrder) {
  EXPECT_EQ(this->refusal({{0, 4}, {4, 2}}), "");
  EXPECT_EQ(this->refusal({{0, 1}, {1, 1}, {2, 4}}), "");
}

TYPED_TEST(ValidateSegments, RefusesWrongRows) {
  const std::vector<RowRange> wrong[] = {
      {{0, 0}, {0, 6}},   // no rows
      {{0, -1}, {0, 6}},  // fewer than none
      {{0, 4}, {3, 3}},   // overlapping
      {{4, 2}, {0, 4}},   // out of order
      {{0, 4}, {4, 3}},   // past the end
      {{-1, 7}},          // before the first
      {{0, std::numeric_limits<std::int64_t>::max()}},
  };
  for (const auto& ranges : wrong) {
    EXPECT_THAT(this->refusal(ranges), HasSubstr(": a segment covers rows ")) << ranges[0].first_row;
  }
}

template <class Args>
class ValidateStates : public testing::Test {
 public:
  /// The operator with its first segment changed.
  template <class Change>
  static std::string refusal(const Change& change) {
    const test::ValidOps valid;
    const auto right = valid.get<Args>().segments;
    std::vector segments(right.begin(), right.end());
    change(segments[0]);
    return refusal_with<Args>(segments);
  }
};

using WithStates = testing::Types<GdnConv, GdnDelta>;
TYPED_TEST_SUITE(ValidateStates, WithStates);

TYPED_TEST(ValidateStates, RefusesOtherStates) {
  EXPECT_THAT(this->refusal([](auto& s) { s.state_in.dtype = DType::bf16; }),
              HasSubstr(": state_in is bf16, expected f32"));
  EXPECT_THAT(this->refusal([](auto& s) { s.state_out.dtype = DType::f64; }),
              HasSubstr(": state_out is f64, expected f32"));
  EXPECT_THAT(this->refusal([](auto& s) { s.state_in.shape.dims[1] += 1; }), HasSubstr(": state_in is ["));
  EXPECT_THAT(this->refusal([](auto& s) { s.state_out.shape.rank -= 1; }), HasSubstr(": state_out is ["));
  EXPECT_THAT(this->refusal([](auto& s) { s.state_in.row_stride += 1; }),
              HasSubstr(": state_in must be contiguous"));
  EXPECT_THAT(this->refusal([](auto& s) { s.state_out.row_stride += 1; }),
              HasSubstr(": state_out must be contiguous"));
}

TYPED_TEST(ValidateStates, RefusesOneSlotForBoth) {
  float memory = 0;
  EXPECT_THAT(this->refusal([&](auto& s) { s.state_in.data = s.state_out.data = &memory; }),
              HasSubstr("state_in and state_out are the same slot"));
}

template <class Args>
class ValidatePages : public testing::Test {};
using WithPages = testing::Types<KvAppend, Attention>;
TYPED_TEST_SUITE(ValidatePages, WithPages);

TYPED_TEST(ValidatePages, RefusesTooFewAndNegativePositions) {
  std::vector<void*> pages(2);  // of 8 positions
  const auto refusal = [&](std::int64_t position) {
    const std::vector<KvSegment> segments = {{{0, 6}, position, pages}};
    return refusal_with<TypeParam>(segments);
  };
  EXPECT_EQ(refusal(10), "");
  EXPECT_THAT(refusal(11), HasSubstr("2 pages for positions 11..17, expected 3"));
  EXPECT_THAT(refusal(-1), HasSubstr("positions -1"));
}

TEST(OpKinds, HaveTheirOwnNames) {
  std::set<std::string_view> names;
  for (int kind = 0; kind < kOpKinds; ++kind) names.insert(name(static_cast<OpKind>(kind)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kOpKinds));
  EXPECT_EQ(name(OpKind::embed), "embed");
  EXPECT_EQ(name(OpKind::gdn_delta), "gdn_delta");
  EXPECT_EQ(name(OpKind::sigmoid_gate), "sigmoid_gate");
  EXPECT_EQ(kind_of(KvAppend{}), OpKind::kv_append);
}

}  // namespace
}  // namespace tandem
