#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/reference/support.hpp"

namespace tandem::test {
namespace {

class CommonOpsTest : public ReferenceTest {};

/// x W^T by plain sums in extended precision.
std::vector<double> direct_product(const Array<double>& x, const Array<float>& weight) {
  std::vector<double> y;
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    for (std::int64_t m = 0; m < weight.rows(); ++m) {
      long double sum = 0;
      for (std::int64_t k = 0; k < x.shape()[1]; ++k)
        sum += static_cast<long double>(weight.at(m, k)) * x.at(i, k);
      y.push_back(static_cast<double>(sum));
    }
  }
  return y;
}

TEST_F(CommonOpsTest, EmbedPicksRows) {
  const Array<float> table = random_weight("table", Shape{5, 3});
  const Array<std::int32_t> ids = {4, 0, 4};
  Array<double> y(Shape{3, 3}, /*gap=*/2);
  submit(Embed{ids.view(), table.view(), y.view()});
  for (std::int64_t j = 0; j < 3; ++j) {
    EXPECT_EQ(y.at(0, j), table.at(4, j));
    EXPECT_EQ(y.at(1, j), table.at(0, j));
    EXPECT_EQ(y.at(2, j), table.at(4, j));
  }
  EXPECT_TRUE(y.gaps_intact());
}

TEST_F(CommonOpsTest, EmbedWidensBf16Exactly) {
  Array<bf16> table(Shape{2, 3});
  table.at(1, 0) = {0x3f80};  // 1
  table.at(1, 1) = {0xc0a0};  // -5
  table.at(1, 2) = {0x0001};  // the smallest subnormal
  const Array<std::int32_t> ids = {1};
  Array<double> y(Shape{1, 3});
  submit(Embed{ids.view(), table.view(), y.view()});
  EXPECT_EQ(y.values(), (std::vector<double>{1, -5, std::ldexp(1.0, -133)}));
}

TEST_F(CommonOpsTest, GatherRowsPicksRows) {
  const Array<double> x = random_array("x", Shape{4, 5}, 1, 0, /*gap=*/3);
  const Array<std::int32_t> rows = {3, 1};
  Array<double> y(Shape{2, 5}, /*gap=*/1);
  submit(GatherRows{x.view(), rows.view(), y.view()});
  EXPECT_EQ(y.values(0, 1), x.values(3, 1));
  EXPECT_EQ(y.values(1, 1), x.values(1, 1));
  EXPECT_TRUE(y.gaps_intact());
}

TEST_F(CommonOpsTest, RmsNormOfKnownNumbers) {
  Array<double> x(Shape{2, 2}, /*gap=*/1);
  x.at(0, 0) = 3;
  x.at(0, 1) = -4;
  const Array<float> weight = {0, 1};
  Array<double> y(Shape{2, 2}, /*gap=*/1);
  // The mean of 9 and 16 is 12.5; eps makes it 16. A row of zeros stays zero.
  submit(RmsNorm{x.view(), weight.view(), 3.5F, y.view()});
  EXPECT_EQ(y.values(), (std::vector<double>{0.75, -2, 0, 0}));
  EXPECT_TRUE(y.gaps_intact());

  submit(RmsNorm{x.view(), weight.view(), 3.5F, x.view()});
  EXPECT_EQ(x.values(), y.values());
}

// 37 outputs are two blocks of rows and a part of one.
TEST_F(CommonOpsTest, LinearEqualsPlainSums) {
  const Array<double> x = random_array("x", Shape{3, 29}, 1, 0, /*gap=*/4);
  const Array<float> weight = random_weight("w", Shape{37, 29});
  Array<double> y(Shape{3, 37}, /*gap=*/2);
  submit(Linear{x.view(), weight.view(), {}, y.view()});
  EXPECT_LE(relative_difference(y.values(), direct_product(x, weight)), kRounding);
  EXPECT_TRUE(y.gaps_intact());
}

TEST_F(CommonOpsTest, LinearWidensBf16Weights) {
  const Array<double> x = random_array("x", Shape{2, 40});
  Array<float> wide = random_weight("w", Shape{18, 40});
  Array<bf16> weight(wide.shape());
  for (std::int64_t m = 0; m < 18; ++m) {
    for (std::int64_t k = 0; k < 40; ++k) {
      weight.at(m, k) = truncate_to_bf16(wide.at(m, k));
      wide.at(m, k) = std::bit_cast<float>(static_cast<std::uint32_t>(weight.at(m, k).bits) << 16);
    }
  }
  Array<double> y(Shape{2, 18});
  submit(Linear{x.view(), weight.view(), {}, y.view()});
  EXPECT_LE(relative_difference(y.values(), direct_product(x, wide)), kRounding);
}

TEST_F(CommonOpsTest, LinearAddsAResidualThatMayBeItsResult) {
  const Array<double> x = random_array("x", Shape{3, 29});
  const Array<float> weight = random_weight("w", Shape{37, 29});
  const Array<double> residual = random_array("r", Shape{3, 37}, 1, 0, /*gap=*/5);
  std::vector<double> expected = direct_product(x, weight);
  const std::vector<double> added = residual.values();
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added[i];

  Array<double> y(Shape{3, 37});
  submit(Linear{x.view(), weight.view(), residual.view(), y.view()});
  EXPECT_LE(relative_difference(y.values(), expected), kRounding);

  Array<double> in_place = residual;
  submit(Linear{x.view(), weight.view(), in_place.view(), in_place.view()});
  EXPECT_EQ(in_place.values(), y.values());
  EXPECT_TRUE(in_place.gaps_intact());
}

TEST_F(CommonOpsTest, LinearOfABatchEqualsEachRowAlone) {
  const Array<double> x = random_array("x", Shape{7, 131}, 1, 0, /*gap=*/3);
  const Array<float> weight = random_weight("w", Shape{50, 131});
  Array<double> batch(Shape{7, 50});
  submit(Linear{x.view(), weight.view(), {}, batch.view()});
  for (std::int64_t i = 0; i < 7; ++i) {
    Array<double> alone(Shape{1, 50});
    submit(Linear{x.view().slice_rows(i, 1), weight.view(), {}, alone.view()});
    EXPECT_EQ(alone.values(), batch.values(i, 1)) << "row " << i;
  }
}

TEST_F(CommonOpsTest, SiluMulEqualsItsFormula) {
  const Array<double> gate = random_array("gate", Shape{3, 7}, 4, 0, /*gap=*/2);
  const Array<double> up = random_array("up", Shape{3, 7}, 1, 0, /*gap=*/1);
  Array<double> y(Shape{3, 7}, /*gap=*/3);
  submit(SiluMul{gate.view(), up.view(), y.view()});
  std::vector<long double> expected;
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 7; ++j) {
      const long double x = gate.at(i, j);
      expected.push_back(x / (1 + std::exp(-x)) * up.at(i, j));
    }
  }
  EXPECT_LE(relative_difference(y.values(), expected), kRounding);
  EXPECT_TRUE(y.gaps_intact());
}

TEST_F(CommonOpsTest, SiluSaturatesWithoutOverflow) {
  Array<double> gate(Shape{1, 3});
  gate.at(0, 0) = 1000;
  gate.at(0, 1) = -1000;
  const Array<double> up = random_array("one", Shape{1, 3}, 0, 1);
  Array<double> y(Shape{1, 3});
  submit(SiluMul{gate.view(), up.view(), y.view()});
  EXPECT_EQ(y.values(), (std::vector<double>{1000, 0, 0}));
}

}  // namespace
}  // namespace tandem::test
