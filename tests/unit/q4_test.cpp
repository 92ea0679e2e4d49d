#include "core/q4.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/error.hpp"
#include "core/q4_quantizer.hpp"
#include "core/random_tensor.hpp"

namespace tandem {
namespace {

std::vector<float> dequantized(const ConstTensor& q4) {
  std::vector<float> values(static_cast<std::size_t>(q4.shape.elements()));
  for (std::int64_t row = 0; row < q4.rows(); ++row) {
    dequantize_q4_row(q4, row, values.data() + row * q4.shape[1]);
  }
  return values;
}

ConstTensor matrix_of(const std::vector<float>& values, std::int64_t columns) {
  return {values.data(), DType::f32, Shape{static_cast<std::int64_t>(values.size()) / columns, columns}};
}

TEST(Q4, TakesFourAndAHalfBits) {
  EXPECT_EQ(storage_bytes(DType::q4, 10240LL * 5120), 29'491'200);
  const std::int64_t layer = 10240LL * 5120 + 6144 * 5120 + 5120 * 6144;
  EXPECT_EQ(storage_bytes(DType::q4, layer), 64'880'640);
  EXPECT_EQ(storage_bytes(DType::f32, layer), 461'373'440);
}

TEST(Q4, ValuesOnTheGridComeBackExactly) {
  const RandomTensor random{DType::q4, Shape{64, 320}, CounterRandom("grid", 1), 0.02f, 0};
  const std::vector<float> values = dequantized(make_host_tensor("test", random).view);
  const HostTensor again = quantize_q4(matrix_of(values, 320));
  const std::vector<float> result = dequantized(again.view);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], result[i]) << i;
}

TEST(Q4, GridBlocksOfFewLevelsComeBackExactly) {
  for (int largest = -8; largest <= 7; ++largest) {
    std::vector<float> values(32, 0.0f);
    values[5] = 0.0078125f * static_cast<float>(largest);
    values[9] = 0.0078125f * static_cast<float>(largest / 2);
    EXPECT_EQ(dequantized(quantize_q4(matrix_of(values, 32)).view), values) << largest;
  }
}

TEST(Q4, IsNoWorseThanAnyOfItsCandidates) {
  const RandomTensor random{DType::f32, Shape{256, 32}, CounterRandom("plain", 3), 1.0f, 0};
  const HostTensor matrix = make_host_tensor("test", random);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(storage_bytes(DType::q4, 256 * 32)));
  for (std::int64_t row = 0; row < 256; ++row) {
    const double error = quantize_q4_rows(matrix.view, row, row + 1, bytes.data()).squared_error;
    const float* x = matrix.view.row<float>(row);
    float m = 0;
    for (int i = 0; i < 32; ++i) m = std::abs(x[i]) > std::abs(m) ? x[i] : m;
    const float d = num::widen(num::round_to_f16(m / -8.0f));
    double simple = 0;
    for (int i = 0; i < 32; ++i) {
      const float level = std::min(7.0f, std::max(-8.0f, std::nearbyint(x[i] / d)));
      simple += std::pow(static_cast<double>(x[i] - d * level), 2);
    }
    EXPECT_LE(error, simple * 1.0001) << row;
  }
}

TEST(Q4, RefusesWhatItCannotHold) {
  std::vector<float> values(64, 1.0f);
  values[40] = NAN;
  EXPECT_THROW(quantize_q4(matrix_of(values, 64)), Error);
  values[40] = 1e6f;
  EXPECT_THROW(quantize_q4(matrix_of(values, 64)), Error);
  EXPECT_THROW(quantize_q4(matrix_of(values, 16)), Error);
}

TEST(Q4, SmallValuesBecomeZeros) {
  const std::vector<float> values(32, 1e-12f);
  EXPECT_EQ(dequantized(quantize_q4(matrix_of(values, 32)).view), std::vector<float>(32, 0.0f));
}

TEST(Q8, LevelsAreTheNearestWithinTheScale) {
  std::vector<float> x(32);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 12.25f;
  std::vector<std::int8_t> levels(32);
  const float scale = num::quantize_q8(x.data(), levels.data());
  EXPECT_EQ(scale, 18.75f / 127.0f);
  EXPECT_EQ(levels[31], 127);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(levels[i], std::lrint(x[i] / scale));
}

TEST(Q8, AScaleThatIsNoNumberIsKeptAndGivesNoLevels) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> x(32, 1.0f);
    x[7] = bad;
    std::vector<std::int8_t> levels(32, 1);
    const float scale = num::quantize_q8(x.data(), levels.data());
    EXPECT_FALSE(std::isfinite(scale));
    EXPECT_EQ(levels, std::vector<std::int8_t>(32, 0));
  }
}

TEST(Q8, ACoarseSubnormalScaleStaysInRange) {
  std::vector<float> x(32, 190 * 0x1p-149f);
  std::vector<std::int8_t> levels(32);
  EXPECT_EQ(num::quantize_q8(x.data(), levels.data()), 0x1p-149f);
  EXPECT_EQ(levels[0], 127);
}

TEST(F16, RoundsEveryWidenedValueToItself) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const f16 half{static_cast<std::uint16_t>(bits)};
    const float wide = num::widen(half);
    const f16 back = num::round_to_f16(wide);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(num::widen(back)));
    } else {
      ASSERT_EQ(back.bits, half.bits);
    }
  }
}

#if defined(__FLT16_MANT_DIG__)
TEST(F16, RoundsAsTheCompilersOwn) {
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 997) {
    const float x = num::float_of(static_cast<std::uint32_t>(bits));
    if (std::isnan(x)) continue;
    const auto half = static_cast<_Float16>(x);
    ASSERT_EQ(num::round_to_f16(x).bits, __builtin_bit_cast(std::uint16_t, half)) << x;
  }
}
#endif

}  // namespace
}  // namespace tandem
