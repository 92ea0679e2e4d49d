#include "core/numerics64.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/numerics.hpp"
#include "core/random.hpp"
#include "tests/unit/numerics64_values.hpp"

namespace tandem {
namespace {

constexpr double kInfinity64 = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// found - truth; both are sums of two doubles whose high parts are near to each other.
double distance(const DoubleDouble& found, const double (&truth)[2]) {
  return std::abs((found - DoubleDouble(truth[0], truth[1])).high);
}

double relative(const DoubleDouble& found, const double (&truth)[2]) {
  return distance(found, truth) / std::abs(truth[0]);
}

double ulps(double found, const double (&truth)[2]) {
  return distance(found, truth) / std::ldexp(1.0, std::ilogb(truth[0]) - 52);
}

TEST(DoubleDouble, KeepsWhatADoubleLoses) {
  const DoubleDouble sum = exact_sum(1.0, 0x1p-80);
  EXPECT_EQ(sum.high, 1.0);
  EXPECT_EQ(sum.low, 0x1p-80);
  const DoubleDouble product = exact_product(1 + 0x1p-40, 1 - 0x1p-40);  // 1 - 2^-80
  EXPECT_EQ(product.high, 1.0);
  EXPECT_EQ(product.low, -0x1p-80);
  const DoubleDouble third = DoubleDouble(1.0) / DoubleDouble(3.0);
  EXPECT_LE(std::abs((third * DoubleDouble(3.0) - DoubleDouble(1.0)).high), 0x1p-104);
  EXPECT_EQ((third - third).high, 0);
}

TEST(DoubleDouble, RoundsOnceToFloat) {
  const float next = 1 + 0x1p-23f;
  const double middle = 1 + 0x1p-24;
  EXPECT_EQ(round_to_float({middle, 0}), 1.0f) << "ties to even";
  EXPECT_EQ(round_to_float({middle, 0x1p-80}), next) << "the double alone would be a tie";
  EXPECT_EQ(round_to_float({middle, -0x1p-80}), 1.0f);
  EXPECT_EQ(round_to_float({-middle, -0x1p-80}), -next);
  EXPECT_EQ(round_to_float({middle + 0x1p-23, -0x1p-80}), next) << "here the tie would go up";
  EXPECT_EQ(round_to_float({middle + 0x1p-23, 0x1p-80}), 1 + 0x1p-22f);
  EXPECT_EQ(round_to_float({middle + 0x1p-52, -0x1p-80}), next) << "no tie: the low part decides nothing";
  EXPECT_EQ(round_to_float({0, 0}), 0);
  EXPECT_EQ(round_to_float({1, -0x1p-60}), 1.0f);
}

TEST(Numerics64, ExpIsNearlyCorrectlyRounded) {
  for (const test::Value& value : test::kExpValues) {
    EXPECT_LE(ulps(exp64(value.x), value.result), 0.62) << value.x;
    EXPECT_LE(relative(precise_exp(value.x), value.result), 0x1p-104) << value.x;
  }
}

TEST(Numerics64, LogIsCorrectlyRounded) {
  for (const test::Value& value : test::kLogValues) {
    EXPECT_EQ(log64(value.x), value.result[0]) << value.x;
    EXPECT_LE(relative(precise_log(value.x), value.result), 0x1p-103) << value.x;
  }
}

TEST(Numerics64, PowerOfRotaryFrequencies) {
  for (const test::PowerValue& value : test::kPowerValues) {
    const DoubleDouble exponent = -(DoubleDouble(value.k) / DoubleDouble(value.pairs));
    EXPECT_LE(relative(precise_power(value.theta, exponent), value.result), 0x1p-99)
        << value.theta << "^(-" << value.k << "/" << value.pairs << ")";
  }
}

TEST(Numerics64, SineAndCosineOfLargeAngles) {
  for (const test::SinCosValue& value : test::kSinCosValues) {
    const SinCos found = precise_sincos(value.x);
    EXPECT_LE(distance(found.sin, value.sin), 0x1p-104) << value.x;
    EXPECT_LE(distance(found.cos, value.cos), 0x1p-104) << value.x;
  }
}

TEST(Numerics64, SpecialValues) {
  EXPECT_EQ(exp64(0), 1);
  EXPECT_EQ(exp64(-0.0), 1);
  EXPECT_EQ(exp64(kInfinity64), kInfinity64);
  EXPECT_EQ(exp64(710), kInfinity64);
  EXPECT_LT(exp64(709.782712893384), kInfinity64);
  EXPECT_EQ(exp64(709.782712893385), kInfinity64);
  EXPECT_EQ(exp64(-kInfinity64), 0);
  EXPECT_EQ(exp64(-1e300), 0);
  EXPECT_EQ(exp64(-745.13), 0x1p-1074);
  EXPECT_EQ(exp64(-745.14), 0);
  EXPECT_TRUE(std::isnan(exp64(kNaN)));
  EXPECT_EQ(log64(1), 0);
  EXPECT_EQ(log64(0), -kInfinity64);
  EXPECT_EQ(log64(kInfinity64), kInfinity64);
  EXPECT_TRUE(std::isnan(log64(-1)));
  EXPECT_TRUE(std::isnan(log64(kNaN)));
  EXPECT_EQ(log64(0x1p-1074), -744.4400719213812);
  EXPECT_EQ(precise_power(1e7, 0.0).high, 1);
  EXPECT_EQ(precise_sincos(0.0).sin.high, 0);
  EXPECT_EQ(precise_sincos(0.0).cos.high, 1);
}

/// All bits of many results: another compiler, processor or optimisation must not change one.
TEST(Numerics64, TheBitsAreTheSameEverywhere) {
  const CounterRandom random("numerics64", 1);
  std::uint64_t digest = 0;
  const auto take = [&](double x) {
    digest = (digest ^ __builtin_bit_cast(std::uint64_t, x)) * 0x9e3779b97f4a7c15u;
  };
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const double x = random.uniform(i);
    take(exp64((x - 0.5) * 1500));
    take(log64(x));
    const DoubleDouble frequency = precise_power(1 + x * 1e7, DoubleDouble(-x));
    take(frequency.low);
    const SinCos both = precise_sincos(DoubleDouble(x * 262144) * frequency);
    take(both.sin.high);
    take(both.cos.low);
  }
  EXPECT_EQ(digest, 13462258572825749118u);
}

}  // namespace
}  // namespace tandem
