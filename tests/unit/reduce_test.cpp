#include "core/reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/random.hpp"

/// The reductions against a second telling of their words ("One arithmetic" in core/README.md), written with
/// nothing of core/reduce.hpp's: V elements a 16-byte load, 32 lanes, chains by index, a lane's chains joined
/// as a tree of neighbours, lanes by a butterfly.
namespace tandem {
namespace {

using Floats = std::vector<float>;

Floats pairs_joined(const Floats& values) {
  Floats joined;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    joined.push_back(i + 1 < values.size() ? values[i] + values[i + 1] : values[i]);
  }
  return joined;
}

float tree_of_neighbours(Floats values) {
  while (values.size() > 1) values = pairs_joined(values);
  return values.front();
}

float butterfly(Floats lanes) {
  for (std::size_t o : {16u, 8u, 4u, 2u, 1u}) {
    Floats next(lanes.size());
    for (std::size_t l = 0; l < lanes.size(); ++l) next[l] = lanes[l] + lanes[l ^ o];
    lanes = next;
  }
  return lanes[0];
}

/// `vector` elements a load; weights already widened.
float dot_in_words(const Floats& w, const Floats& x, std::size_t n, std::size_t vector) {
  const std::size_t chains = 32 * vector;
  Floats lanes;
  for (std::size_t lane = 0; lane < 32; ++lane) {
    Floats own;
    for (std::size_t c = lane * vector; c < (lane + 1) * vector; ++c) {
      float chain = 0.0f;
      for (std::size_t i = c; i < n; i += chains) chain = std::fmaf(w[i], x[i], chain);
      own.push_back(chain);
    }
    lanes.push_back(tree_of_neighbours(own));
  }
  return butterfly(lanes);
}

/// Values over many exponents, so that another order gives other bits.
Floats random_floats(const char* stream, std::size_t n) {
  const CounterRandom random(stream, 5);
  Floats values;
  for (std::size_t i = 0; i < n; ++i) {
    const double u = random.normal(i);
    values.push_back(static_cast<float>(u * u * u));
  }
  return values;
}

constexpr std::size_t kLongest = 700;

TEST(Reduce, DotOfF32IsTheDotInWords) {
  const Floats w = random_floats("w", kLongest), x = random_floats("x", kLongest);
  for (std::size_t n = 0; n <= kLongest; ++n) {
    const float expected = dot_in_words(w, x, n, 4),
                found = num::dot(w.data(), x.data(), static_cast<std::int64_t>(n));
    ASSERT_EQ(num::bits_of(expected), num::bits_of(found))
        << n << " elements: " << expected << " and " << found;
  }
}

TEST(Reduce, DotOfBf16IsTheDotInWords) {
  const Floats exact = random_floats("w", kLongest), x = random_floats("x", kLongest);
  std::vector<bf16> w;
  Floats widened;
  for (float value : exact) {
    w.push_back({static_cast<std::uint16_t>(num::bits_of(value) >> 16)});
    widened.push_back(num::float_of(num::bits_of(value) & 0xffff0000u));
  }
  for (std::size_t n = 0; n <= kLongest; ++n) {
    const float expected = dot_in_words(widened, x, n, 8);
    const float found = num::dot(w.data(), x.data(), static_cast<std::int64_t>(n));
    ASSERT_EQ(num::bits_of(expected), num::bits_of(found))
        << n << " elements: " << expected << " and " << found;
  }
}

TEST(Reduce, SumOfSquaresIsADotOfF32) {
  const Floats x = random_floats("x", kLongest);
  for (std::size_t n : {1u, 31u, 127u, 128u, 129u, 513u}) {
    EXPECT_EQ(num::bits_of(num::sum_of_squares(x.data(), static_cast<std::int64_t>(n))),
              num::bits_of(dot_in_words(x, x, n, 4)));
  }
}

TEST(Reduce, AnEmptyDotIsPlusZero) {
  const float nothing = 0.0f;
  EXPECT_EQ(num::bits_of(num::dot(&nothing, &nothing, 0)), 0u);
}

TEST(Reduce, JoinNeighboursOfAnyCount) {
  for (std::size_t count = 1; count <= 70; ++count) {
    const Floats values = random_floats("n", count);
    Floats scratch = values;
    const float found = num::join_neighbours(scratch.data(), static_cast<int>(count));
    EXPECT_EQ(num::bits_of(found), num::bits_of(tree_of_neighbours(values))) << count << " values";
  }
}

/// 2^24 + 1 rounds to 2^24, so each order of these has its own sum.
TEST(Reduce, AnOddLastValueIsCarried) {
  Floats three = {1.0f, 0x1p24f, -0x1p24f};
  EXPECT_EQ(num::join_neighbours(three.data(), 3), 0.0f);
  Floats five = {0x1p24f, -0x1p24f, 1.0f, 1.0f, 0x1p24f};
  EXPECT_EQ(num::join_neighbours(five.data(), 5), 0x1p24f + 2.0f);
}

TEST(Reduce, LanesJoinAsAButterfly) {
  const Floats lanes = random_floats("lanes", 32);
  Floats scratch = lanes;
  EXPECT_EQ(num::bits_of(num::join_lanes(scratch.data())), num::bits_of(butterfly(lanes)));
}

/// The orders are not the naive one in disguise.
TEST(Reduce, AnotherOrderHasOtherBits) {
  const Floats w = random_floats("w", kLongest), x = random_floats("x", kLongest);
  int same = 0;
  for (std::size_t n = 100; n <= kLongest; ++n) {
    float sum = 0.0f;
    for (std::size_t i = 0; i < n; ++i) sum = std::fmaf(w[i], x[i], sum);
    same += sum == num::dot(w.data(), x.data(), static_cast<std::int64_t>(n));
  }
  EXPECT_LT(same, 300);
}

}  // namespace
}  // namespace tandem
