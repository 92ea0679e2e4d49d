#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/numerics.hpp"
#include "tests/kernels/cases.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include "tests/kernels/run.hpp"

/// These tests can fail: kernels that are wrong on purpose are reported, each with its reason.
namespace tandem::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kWidth = 7, kGap = 3;

/// A norm of two rows with gaps; the second row's first element is zero, so that y has a +0.
Case norm_case() {
  Case test;
  test.kind = OpKind::rms_norm;
  Dice dice("flaws", 1);
  Operand x("x", DType::f32, Shape{2, kWidth}, Layout{}, Access::read);
  x.fill(Values::ordinary, dice);
  x.set(kWidth, 0.0f);
  Operand weight("weight", DType::f32, Shape{kWidth}, Layout{}, Access::read);
  weight.fill(Values::ordinary, dice);
  Operand y("y", DType::f32, Shape{2, kWidth}, Layout{5, kGap, 0}, Access::write);
  test.operands = {x, weight, y};
  test.with_op = [](const Bound& o, const Submit& submit) { submit(RmsNorm{o[0], o[1], 1e-6, o[2]}); };
  return test;
}

/// What the comparison says about a kernel that computes rightly and then does `flaw`.
template <class Flaw>
std::string report(const Flaw& flaw) {
  const auto backend = make_definition();
  const Case test = norm_case();
  const Image expected = run(*backend, test);
  return difference(test, expected, run(*backend, test, [&](Backend& b, const Op& op) {
                      const std::string_view variant = b.submit(op);
                      flaw(std::get<RmsNorm>(op));
                      return variant;
                    }));
}

void flip_lowest_bit(float& x) { x = num::float_of(num::bits_of(x) ^ 1u); }

TEST(KernelFlaws, NoneIsReportedWithout) {
  EXPECT_EQ(report([](const RmsNorm&) {}), "");
}

TEST(KernelFlaws, ALastBit) {
  const std::string text = report([](const RmsNorm& op) { flip_lowest_bit(op.y.row<float>(1)[kWidth - 1]); });
  EXPECT_THAT(text, HasSubstr("'y': wrong: 1 of 14 elements, first at [1, 6]"));
}

TEST(KernelFlaws, TheSignOfZero) {
  EXPECT_THAT(report([](const RmsNorm& op) { op.y.row<float>(1)[0] = -0.0f; }),
              HasSubstr("first at [1, 0]: expected 00000000 (0), found 80000000 (-0)"));
}

TEST(KernelFlaws, AMissingElement) {
  EXPECT_THAT(report([](const RmsNorm& op) { op.y.row<float>(0)[2] = num::float_of(kPoison); }),
              HasSubstr("'y': did not write: 1 of 14 elements, first at [0, 2]"));
}

TEST(KernelFlaws, AWriteIntoAGap) {
  EXPECT_THAT(
      report([](const RmsNorm& op) { op.y.row<float>(0)[kWidth + 1] = 0.0f; }),
      HasSubstr("'y': changed what is not to be written: 1 of 14 elements, first at a gap, 8 elements"));
}

TEST(KernelFlaws, AWriteIntoAnInput) {
  const std::string text =
      report([](const RmsNorm& op) { flip_lowest_bit(*const_cast<float*>(op.x.row<float>(1) + 1)); });
  EXPECT_THAT(text, HasSubstr("'x': changed what is not to be written: 1 of 14 elements, first at [1, 1]"));
}

TEST(KernelFlaws, AWriteOutside) {
  EXPECT_THAT(report([](const RmsNorm& op) { op.y.row<float>(0)[-1] = 0.0f; }),
              HasSubstr("'y': wrote 4 bytes before its memory"));
  EXPECT_THAT(report([](const RmsNorm& op) { op.y.row<float>(1)[kWidth + 9] = 0.0f; }),
              HasSubstr("'y': wrote 37 bytes past the end of its memory"));
}

TEST(KernelFlaws, ANanIsANan) {
  Case test = norm_case();
  test.operands[0].set(3, std::nanf(""));
  const auto backend = make_definition();
  const Image expected = run(*backend, test);
  const Image found = run(*backend, test, [](Backend& b, const Op& op) {
    const std::string_view variant = b.submit(op);
    std::get<RmsNorm>(op).y.row<float>(0)[0] = num::float_of(0xffc12345u);
    return variant;
  });
  EXPECT_EQ(difference(test, expected, found), "");
}

/// The sum of squares from the first element to the last: right to the last few bits, and found in ordinary
/// cases.
std::string_view reassociated_norm(Backend&, const Op& op) {
  const auto& norm = std::get<RmsNorm>(op);
  const std::int64_t width = norm.x.row_elements();
  for (std::int64_t t = 0; t < norm.x.rows(); ++t) {
    const float* x = norm.x.row<float>(t);
    float sum = 0.0f;
    for (std::int64_t i = 0; i < width; ++i) sum = num::fma(x[i], x[i], sum);
    const float r = num::inverse_sqrt(sum / static_cast<float>(width) + static_cast<float>(norm.eps));
    for (std::int64_t i = 0; i < width; ++i) {
      norm.y.row<float>(t)[i] = (x[i] * r) * (1.0f + norm.weight.row<float>(0)[i]);
    }
  }
  return "reassociated";
}

TEST(KernelFlaws, AnotherOrderOfASum) {
  const auto backend = make_definition();
  int reported = 0;
  for (std::uint64_t seed = 0; seed < 36; ++seed) {
    const Case test = make_case(OpKind::rms_norm, seed, Scale::small);
    reported += !difference(test, run(*backend, test), run(*backend, test, reassociated_norm)).empty();
  }
  EXPECT_GT(reported, 9);
}

}  // namespace
}  // namespace tandem::test
