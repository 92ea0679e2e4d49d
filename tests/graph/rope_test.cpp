#include "graph/run/rope.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem {
namespace {

std::uint64_t digest_of(const std::vector<float>& values) {
  std::uint64_t hash = 0;
  for (float value : values) hash = (hash ^ __builtin_bit_cast(std::uint32_t, value)) * 0x100000001b3u;
  return hash;
}

/// tests/graph/make_rope_digests.py computes all values with mpmath and rounds them once.
TEST(RopeTable, EveryFloatIsTheNearestToTheTrueValue) {
  const struct {
    double theta;
    std::int64_t pairs;
    std::uint64_t cos, sin;
  } tables[] = {{10000.0, 8, 7862947148896306189u, 2370240863184686527u},
                {11947.0, 8, 15852562675300339381u, 2868412476181703192u},
                {10000000.0, 32, 2176578445000475680u, 16268862702486597476u}};
  for (const auto& expected : tables) {
    const RopeTable<float> found = make_rope_table<float>(2100, expected.pairs, expected.theta);
    ASSERT_EQ(std::ssize(found.cos), 2100 * expected.pairs);
    EXPECT_EQ(digest_of(found.cos), expected.cos) << expected.theta;
    EXPECT_EQ(digest_of(found.sin), expected.sin) << expected.theta;
  }
}

TEST(RopeTable, DoublesAreNearTheLibrarysAndAPrefixOfALongerTable) {
  const RopeTable<double> found = make_rope_table<double>(1000, 3, 1e4),
                          longer = make_rope_table<double>(2000, 3, 1e4);
  for (std::int64_t i = 0; i < 3000; ++i) {
    const double angle = static_cast<double>(i / 3) * std::pow(1e4, -static_cast<double>(i % 3) / 3);
    EXPECT_NEAR(found.cos[static_cast<std::size_t>(i)], std::cos(angle), 1e-12);
    EXPECT_NEAR(found.sin[static_cast<std::size_t>(i)], std::sin(angle), 1e-12);
    EXPECT_EQ(found.cos[static_cast<std::size_t>(i)], longer.cos[static_cast<std::size_t>(i)]);
  }
  EXPECT_TRUE(make_rope_table<float>(0, 3, 1e4).cos.empty());
}

}  // namespace
}  // namespace tandem
