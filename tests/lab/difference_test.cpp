#include "tools/fallback/difference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tandem::tools {
namespace {

TEST(LogitDifference, OfTheSameIsNothing) {
  const std::vector<float> logits{1.5F, -2.0F, 0.0F, 7.25F};
  const LogitDifference found = difference_of(logits, logits);
  EXPECT_EQ(found.elements, 4);
  EXPECT_EQ(found.different, 0);
  EXPECT_EQ(found.max_rel, 0);
  EXPECT_EQ(found.kl, 0);
}

TEST(LogitDifference, CountsBits) {
  const std::vector<float> a{0.0F, 1.0F, 2.0F}, b{-0.0F, std::nextafter(1.0F, 2.0F), 2.0F};
  EXPECT_EQ(difference_of(a, b).different, 2) << "equal numbers with other bits are different";
  EXPECT_NEAR(difference_of(a, b).max_rel, std::ldexp(1.0, -23) / 2, 1e-15);
}

TEST(LogitDifference, KnowsTheDivergenceOfTwoWords) {
  // Probabilities 3/4, 1/4 against 1/2, 1/2.
  const std::vector<float> p{std::log(3.0F), 0.0F}, q{0.0F, 0.0F};
  EXPECT_NEAR(difference_of(p, q).kl, 0.75 * std::log(1.5) + 0.25 * std::log(0.5), 1e-7);
  EXPECT_NEAR(difference_of(q, p).kl, 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(2.0), 1e-7);
  EXPECT_DOUBLE_EQ(difference_of(p, q).max_rel, 1.0);
}

TEST(LogitDifference, IsNoNumberWhereALogitIsNone) {
  const std::vector<float> p{1.0F, 2.0F};
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const LogitDifference found = difference_of(p, std::vector<float>{1.0F, bad});
    EXPECT_EQ(found.different, 1);
    EXPECT_TRUE(std::isinf(found.max_rel) && std::isinf(found.kl));
  }
}

TEST(LogitDifference, OfShiftedLogitsShowsInTheirSizeAlone) {
  const std::vector<float> p{1.0F, 2.0F, 4.0F}, q{2.0F, 3.0F, 5.0F};
  EXPECT_NEAR(difference_of(p, q).kl, 0, 1e-15);
  EXPECT_DOUBLE_EQ(difference_of(p, q).max_rel, 0.25);
}

}  // namespace
}  // namespace tandem::tools
