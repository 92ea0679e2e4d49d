#include "core/random_tensor.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "core/threads.hpp"

namespace tandem {
namespace {

RandomTensor tensor_of(DType dtype, Shape shape, float deviation = 1, float offset = 0) {
  return {dtype, shape, CounterRandom("stream", 7), deviation, offset};
}

template <class T>
std::vector<T> values_of(const RandomTensor& tensor, std::int64_t begin, std::int64_t end) {
  std::vector<T> values(static_cast<std::size_t>(end - begin));
  write_random(tensor, begin, end, values.data());
  return values;
}

std::uint32_t bits_of(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

/// From another implementation, in Python. A change of these is a change of every synthetic model.
TEST(RandomTensor, HasItsGoldenValues) {
  const RandomTensor f32 = tensor_of(DType::f32, Shape{4, 5}, 0.25f, 0.5f);
  const std::vector<float> values = values_of<float>(f32, 0, 20);
  const std::vector<bf16> rounded = values_of<bf16>(tensor_of(DType::bf16, Shape{4, 5}, 0.25f, 0.5f), 0, 20);
  const std::uint32_t expected[] = {0x3f6469f4, 0x3ee93c7b, 0x3eb29a16};
  const std::uint16_t expected_bf16[] = {0x3f64, 0x3ee9, 0x3eb3};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(bits_of(values[i * 9]), expected[i]) << std::hex << bits_of(values[i * 9]);
    EXPECT_EQ(rounded[i * 9].bits, expected_bf16[i]) << std::hex << rounded[i * 9].bits;
  }
}

TEST(RandomTensor, AnElementDependsOnItsPlaceAlone) {
  const RandomTensor tensor = tensor_of(DType::f32, Shape{1000});
  const std::vector<float> all = values_of<float>(tensor, 0, 1000);
  const std::vector<float> part = values_of<float>(tensor, 321, 654);
  EXPECT_EQ(std::memcmp(part.data(), all.data() + 321, part.size() * sizeof(float)), 0);
  const std::vector<float> reshaped = values_of<float>(tensor_of(DType::f32, Shape{10, 100}), 0, 1000);
  EXPECT_EQ(reshaped, all);
}

TEST(RandomTensor, Bf16IsTheNearestOfF32) {
  const std::vector<float> exact = values_of<float>(tensor_of(DType::f32, Shape{5000}), 0, 5000);
  const std::vector<bf16> rounded = values_of<bf16>(tensor_of(DType::bf16, Shape{5000}), 0, 5000);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const float found = num::widen(rounded[i]);
    for (const int step : {-1, 1}) {
      const float neighbour = num::widen(bf16{static_cast<std::uint16_t>(rounded[i].bits + step)});
      ASSERT_LE(std::abs(exact[i] - found), std::abs(exact[i] - neighbour)) << i;
    }
  }
}

TEST(RandomTensor, RoundsTiesToEven) {
  for (const auto& [value, expected] : {std::pair{0x3f808000u, 0x3f80u},  // halfway, down to even
                                        std::pair{0x3f818000u, 0x3f82u},  // halfway, up to even
                                        std::pair{0x3f808001u, 0x3f81u}, std::pair{0xbf808000u, 0xbf80u},
                                        std::pair{0x3fffffffu, 0x4000u}, std::pair{0u, 0u}}) {
    float x = 0;
    std::memcpy(&x, &value, sizeof x);
    EXPECT_EQ(round_to_bf16(x).bits, expected) << std::hex << value;
  }
}

TEST(RandomTensor, HasTheMeanAndDeviationItWasAskedFor) {
  constexpr std::int64_t kSamples = 200'000;
  const float deviation = 0.2f, offset = 1;
  double sum = 0, squares = 0;
  for (const float x :
       values_of<float>(tensor_of(DType::f32, Shape{kSamples}, deviation, offset), 0, kSamples)) {
    ASSERT_LE(std::abs(x - offset), 3.47f * deviation);
    sum += x - offset, squares += (x - offset) * (x - offset);
  }
  // Five standard deviations of either estimate.
  EXPECT_NEAR(sum / kSamples, 0, 5 * deviation / std::sqrt(kSamples));
  EXPECT_NEAR(squares / kSamples, deviation * deviation,
              5 * deviation * deviation * std::sqrt(2.0 / kSamples));
}

TEST(RandomTensor, IsTheSameHoweverTheLoopIsCut) {
  const RandomTensor tensor = tensor_of(DType::bf16, Shape{77, 131});
  const HostTensor alone = make_host_tensor("test", tensor);
  Threads threads(3);
  const HostTensor together = make_host_tensor(
      "test", tensor, [&](std::int64_t n, const auto& body) { threads.parallel_for(n, 100, body); });
  EXPECT_EQ(alone.view.shape, tensor.shape);
  EXPECT_EQ(alone.view.dtype, DType::bf16);
  EXPECT_EQ(std::memcmp(alone.view.data, together.view.data, static_cast<std::size_t>(tensor.bytes())), 0);
}

}  // namespace
}  // namespace tandem
