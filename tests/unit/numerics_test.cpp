#include "core/numerics.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/threads.hpp"
#include "tests/share.hpp"

namespace tandem {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kSmallest = 0x1p-149f;

/// Distance from the truth in units of the last place of a float of that size; 2^-149 for subnormal ones.
double ulp_error(float found, double truth) {
  const int exponent = truth == 0 ? -126 : std::max(std::ilogb(truth), -126);
  return std::abs(static_cast<double>(found) - truth) / std::ldexp(1.0, exponent - 23);
}

struct Worst {
  double ulp = 0;
  float at = 0;

  void take(const Worst& other) {
    if (other.ulp > ulp) *this = other;
  }
};

const std::uint32_t kStep = 16 * static_cast<std::uint32_t>(test::one_in());  ///< every 16th float

/// Over the floats with this sign bit and magnitudes up to `limit`.
template <class Function, class Truth>
Worst worst_of_sign(std::uint32_t sign, float limit, const Function& function, const Truth& truth) {
  Worst all;
  std::mutex mutex;
  Threads threads(0);
  threads.parallel_for(num::bits_of(limit) / kStep + 1, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    Worst part;
    for (std::int64_t i = begin; i < end; ++i) {
      const float x = num::float_of((static_cast<std::uint32_t>(i) * kStep) | sign);
      part.take({ulp_error(function(x), truth(static_cast<double>(x))), x});
    }
    const std::lock_guard lock(mutex);
    all.take(part);
  });
  return all;
}

template <class Function, class Truth>
void expect_within(double limit, const char* name, float low, float high, const Function& function,
                   const Truth& truth) {
  Worst worst = worst_of_sign(0u, high, function, truth);
  worst.take(worst_of_sign(0x80000000u, -low, function, truth));
  const std::string text = fmt::format("{} over [{}, {}]: {:.3f} ULP at {:a} ({})", name, low, high,
                                       worst.ulp, worst.at, worst.at);
  fmt::print("{}\n", text);
  testing::Test::RecordProperty("worst", text);
  EXPECT_LE(worst.ulp, limit) << text;
  EXPECT_GT(worst.ulp, 0.4) << "nothing was measured: no function rounds better";
}

TEST(NumericsAccuracy, Exp) {
  expect_within(
      1.0, "exp", -104.0f, 88.72283f, [](float x) { return num::exp(x); },
      [](double x) { return std::exp(x); });
}

TEST(NumericsAccuracy, Sigmoid) {
  expect_within(
      4.0, "sigmoid", -104.0f, 104.0f, [](float x) { return num::sigmoid(x); },
      [](double x) { return 1.0 / (1.0 + std::exp(-x)); });
}

TEST(NumericsAccuracy, Silu) {
  expect_within(
      4.0, "silu", -87.0f, 104.0f, [](float x) { return num::silu(x); },
      [](double x) { return x / (1.0 + std::exp(-x)); });
}

TEST(NumericsAccuracy, Softplus) {
  expect_within(
      4.0, "softplus", -104.0f, 104.0f, [](float x) { return num::softplus(x); },
      [](double x) { return x > 20 ? x : std::log1p(std::exp(x)); });
}

void expect_bits(float expected, float found) {
  EXPECT_EQ(num::bits_of(expected), num::bits_of(found)) << expected << " and " << found;
}

TEST(Numerics, ExpAtTheEnds) {
  expect_bits(1.0f, num::exp(0.0f));
  expect_bits(1.0f, num::exp(-0.0f));
  expect_bits(kInfinity, num::exp(kInfinity));
  expect_bits(0.0f, num::exp(-kInfinity));
  expect_bits(kInfinity, num::exp(std::numeric_limits<float>::max()));
  expect_bits(0.0f, num::exp(std::numeric_limits<float>::lowest()));
}

TEST(Numerics, ExpOverflowsAndVanishesWhereItShould) {
  const float first_overflow = 0x1.62e43p+6f;  // 88.72284
  expect_bits(kInfinity, num::exp(first_overflow));
  EXPECT_LT(num::exp(std::nextafterf(first_overflow, 0.0f)), kInfinity);
  EXPECT_EQ(std::exp(static_cast<double>(first_overflow)) >= 0x1.ffffffp127, true);
  EXPECT_EQ(std::exp(static_cast<double>(std::nextafterf(first_overflow, 0.0f))) < 0x1.ffffffp127, true);

  float x = -103.9f;
  while (num::exp(x) > 0.0f) x = std::nextafterf(x, -kInfinity);
  EXPECT_NEAR(x, -103.9721, 1e-4);
  expect_bits(kSmallest, num::exp(std::nextafterf(x, 0.0f)));
}

TEST(Numerics, SigmoidAtTheEnds) {
  expect_bits(0.5f, num::sigmoid(0.0f));
  expect_bits(0.5f, num::sigmoid(-0.0f));
  expect_bits(1.0f, num::sigmoid(kInfinity));
  expect_bits(0.0f, num::sigmoid(-kInfinity));
  EXPECT_GT(num::sigmoid(-103.0f), 0.0f) << "subnormal, not flushed";
}

TEST(Numerics, SiluAtTheEnds) {
  expect_bits(0.0f, num::silu(0.0f));
  expect_bits(-0.0f, num::silu(-0.0f));
  expect_bits(kInfinity, num::silu(kInfinity));
  expect_bits(100.0f, num::silu(100.0f));
  EXPECT_TRUE(std::isnan(num::silu(-kInfinity))) << "-inf * 0, as torch gives";
}

TEST(Numerics, SoftplusAtTheEnds) {
  expect_bits(0x1.62e43p-1f, num::softplus(0.0f));
  expect_bits(num::softplus(0.0f), num::softplus(-0.0f));
  expect_bits(kInfinity, num::softplus(kInfinity));
  expect_bits(0.0f, num::softplus(-kInfinity));
  const float above = std::nextafterf(20.0f, 21.0f);
  expect_bits(above, num::softplus(above));
}

TEST(Numerics, ANanStaysOne) {
  for (float nan : {kNan, -kNan, num::float_of(0x7f800001u), num::float_of(0xffffffffu)}) {
    EXPECT_TRUE(std::isnan(num::exp(nan)));
    EXPECT_TRUE(std::isnan(num::sigmoid(nan)));
    EXPECT_TRUE(std::isnan(num::silu(nan)));
    EXPECT_TRUE(std::isnan(num::softplus(nan)));
  }
}

TEST(Numerics, WideningIsExact) {
  expect_bits(1.0f, num::widen(bf16{0x3f80}));
  expect_bits(-0.0f, num::widen(bf16{0x8000}));
  expect_bits(0x1p-133f, num::widen(bf16{0x0001}));
  expect_bits(kInfinity, num::widen(bf16{0x7f80}));
}

TEST(Numerics, SelectAboveTakesTheOtherForNan) {
  EXPECT_EQ(num::select_above(2.0f, 1.0f, 3.0f, 4.0f), 3.0f);
  EXPECT_EQ(num::select_above(1.0f, 1.0f, 3.0f, 4.0f), 4.0f);
  EXPECT_EQ(num::select_above(kNan, 1.0f, 3.0f, 4.0f), 4.0f);
}

TEST(Numerics, SubnormalsAreKept) {
  volatile float tiny = 0x1p-126f;
  expect_bits(0x1p-127f, tiny * 0.5f);
  expect_bits(kSmallest, num::fma(kSmallest, 1.0f, 0.0f));
}

}  // namespace
}  // namespace tandem
