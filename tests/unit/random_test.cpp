#include "core/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tandem {
namespace {

/// FNV-1a's and splitmix64's own published values.
TEST(Random, BuildingBlocksHaveTheirKnownValues) {
  static_assert(fnv1a64("") == 0xCBF29CE484222325u);
  static_assert(fnv1a64("a") == 0xAF63DC4C8601EC8Cu);
  static_assert(fnv1a64("foobar") == 0x85944171F73967E8u);
  static_assert(mix64(kGoldenGamma) == 0xE220A8397B1DCDAFu, "the first output of splitmix64 from 0");
  static_assert(mix64(2 * kGoldenGamma) == 0x6E789E6AA1B965F4u, "the second");
}

/// scale and shift of the oracle's tensors; hidden and values are the layer's sizes.
struct Recipe {
  double scale;
  double shift;
};

Recipe recipe_of(const std::string& name, double hidden, double values) {
  if (name == "conv1d.weight") return {0.5, 0};
  if (name == "A_log") return {1, 0.5};
  if (name == "dt_bias") return {1, -1};
  if (name == "norm.weight") return {0.2, 1};
  return {1 / std::sqrt(name == "out_proj.weight" ? values : hidden), 0};
}

float oracle_value(const CounterRandom& random, const std::string& name, std::uint64_t i, double hidden,
                   double values) {
  const double u = random.normal(i);
  if (name == "x") return static_cast<float>(u * u * u * 0.5);
  const Recipe recipe = recipe_of(name, hidden, values);
  return static_cast<float>(u * recipe.scale + recipe.shift);
}

/// The generator of the stored oracle is this one: made by another program, in another language.
TEST(Random, GivesTheOraclesTensors) {
  const char* data = std::getenv("TANDEM_TEST_DATA");
  ASSERT_NE(data, nullptr) << "set TANDEM_TEST_DATA to tests/data";
  for (const char* folder : {"gdn_small", "gdn_27b"}) {
    const std::string path = std::string(data) + "/oracle/" + folder + "/oracle.json";
    std::ifstream file(path);
    ASSERT_TRUE(file) << path;
    const auto oracle = nlohmann::json::parse(file);
    const double hidden = oracle.at("H"),
                 values = oracle.at("vh").get<double>() * oracle.at("vd").get<double>();
    ASSERT_EQ(oracle.at("first4").size(), 10u);
    for (const auto& [name, expected] : oracle.at("first4").items()) {
      const CounterRandom random(name, oracle.at("seed"));
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(oracle_value(random, name, i, hidden, values), expected.at(i).get<float>())
            << name << ' ' << i;
      }
    }
  }
}

TEST(Random, AValueDependsOnItsPlaceAlone) {
  const CounterRandom random("stream", 3);
  const std::uint64_t forward[] = {random.bits(0), random.bits(1), random.bits(1'000'000'007)};
  const CounterRandom again("stream", 3);
  EXPECT_EQ(again.bits(1'000'000'007), forward[2]);
  EXPECT_EQ(again.bits(1), forward[1]);
  EXPECT_EQ(again.bits(0), forward[0]);
  static_assert(CounterRandom("stream", 3).bits(5) == CounterRandom("stream", 3).bits(5));
}

TEST(Random, StreamsAndSeedsDiffer) {
  EXPECT_NE(CounterRandom("a", 1).bits(0), CounterRandom("b", 1).bits(0));
  EXPECT_NE(CounterRandom("a", 1).bits(0), CounterRandom("a", 2).bits(0));
}

constexpr std::uint64_t kSamples = 200'000;

TEST(Random, UniformFillsTheUnitInterval) {
  const CounterRandom random("uniform", 1);
  double least = 1, most = 0, sum = 0;
  int tenths[10] = {};
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const double u = random.uniform(i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    least = std::min(least, u), most = std::max(most, u), sum += u;
    ++tenths[static_cast<int>(u * 10)];
  }
  EXPECT_LT(least, 1e-4);
  EXPECT_GT(most, 1 - 1e-4);
  // Five standard deviations of a mean of uniforms, and of a binomial count.
  EXPECT_NEAR(sum / kSamples, 0.5, 5 * std::sqrt(1.0 / 12 / kSamples));
  for (int count : tenths) EXPECT_NEAR(count, kSamples / 10.0, 5 * std::sqrt(kSamples * 0.09));
}

TEST(Random, NormalHasMeanZeroAndVarianceOne) {
  const CounterRandom random("normal", 1);
  double sum = 0, squares = 0;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const double u = random.normal(i);
    ASSERT_LE(std::abs(u), 3.47);
    sum += u, squares += u * u;
  }
  EXPECT_NEAR(sum / kSamples, 0, 5 / std::sqrt(kSamples));
  EXPECT_NEAR(squares / kSamples, 1, 5 * std::sqrt(2.0 / kSamples));
}

}  // namespace
}  // namespace tandem
