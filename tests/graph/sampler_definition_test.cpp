#include "tests/graph/sampler_definition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/numerics.hpp"
#include "core/random.hpp"
#include "core/stopwatch.hpp"
#include "graph/session/sampler_kernels.hpp"

/// The sampler chooses what its definition says, with the same probability, and does not sort for it.
namespace tandem {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

enum class Kind { normal, peaked, heavy, equal, few_values, narrow, infinite, all_lowest, zeros };
constexpr Kind kKinds[] = {Kind::normal, Kind::peaked,   Kind::heavy,      Kind::equal, Kind::few_values,
                           Kind::narrow, Kind::infinite, Kind::all_lowest, Kind::zeros};

float logit(Kind kind, const CounterRandom& random, std::uint64_t i) {
  const double normal = random.normal(i), uniform = random.uniform(i);
  switch (kind) {
    case Kind::normal:
      return static_cast<float>(3 * normal);
    case Kind::peaked:
      return static_cast<float>(2 * normal + (i % 97 == 5 ? 15 : 0));
    case Kind::heavy:
      return static_cast<float>(1 / (uniform + 1e-6));
    case Kind::equal:
      return 1.25f;
    case Kind::few_values:
      return static_cast<float>(random.bits(i) % 4);
    case Kind::narrow:
      return static_cast<float>(7 + 1e-5 * uniform);
    case Kind::infinite:
      return i % 5 == 1 ? kInfinity : i % 5 == 2 ? -kInfinity : static_cast<float>(normal);
    case Kind::all_lowest:
      return -kInfinity;
    case Kind::zeros:
      return i % 3 == 0 ? -0.0f : i % 3 == 1 ? 0.0f : -1.0f;
  }
  return 0;
}

std::vector<float> logits_of(Kind kind, std::size_t size, std::uint64_t seed) {
  const CounterRandom random("logits", seed);
  std::vector<float> logits(size);
  for (std::size_t i = 0; i < size; ++i) logits[i] = logit(kind, random, i);
  return logits;
}

/// Options of all kinds, by chance.
SamplingOptions options_of(std::uint64_t seed) {
  const CounterRandom random("options", seed);
  constexpr double temperatures[] = {0, 0.8, 1, 0.1, 5, 1e-3, 1e30, 1e-40};
  constexpr std::int64_t top_ks[] = {0, 0, 1, 2, 20, 63, 64, 65, 1000, 100000};
  constexpr double top_ps[] = {1, 1, 0.95, 0.5, 0.01, 1e-18, 0.999999999, 0x1.fffffffffffffp-1};
  constexpr double min_ps[] = {0, 0, 0.05, 1, 0.5, 1e-13, 1e-9};
  const auto any = [&](std::uint64_t i, const auto& from) { return from[random.bits(i) % std::size(from)]; };
  SamplingOptions options{.temperature = any(0, temperatures),
                          .top_k = any(1, top_ks),
                          .top_p = any(2, top_ps),
                          .seed = random.bits(3)};
  options.min_p = any(4, min_ps);
  if (random.bits(5) % 3 == 0) {
    options.repeat_penalty = 0.5 + random.uniform(6);
    options.presence_penalty = random.normal(7);
    options.frequency_penalty = random.normal(8) / 10;
    options.repeat_last_n = static_cast<std::int64_t>(random.bits(9) % 40) - 1;
  }
  return options;
}

TEST(SamplerDefinition, EveryChoiceHasItsTokenAndItsProbability) {
  constexpr std::size_t sizes[] = {1, 2, 3, 63, 64, 65, 200, 2048, 5000};
  Sampler sampler;
  std::uint64_t seed = 0;
  int draws = 0, cut = 0;
  for (const std::size_t size : sizes) {
    for (const Kind kind : kKinds) {
      const std::vector<float> logits = logits_of(kind, size, seed);
      for (int i = 0; i < (size > 1000 ? 12 : 60); ++i) {
        const SamplingOptions options = options_of(++seed);
        validate(options);
        std::vector<TokenId> history;
        const CounterRandom random("history", seed);
        for (std::uint64_t k = 0; k < seed % 50; ++k)
          history.push_back(static_cast<TokenId>(random.bits(k) % std::min<std::uint64_t>(size, 30)));
        const auto position = static_cast<std::int64_t>(seed % 1000);
        const Choice expected = choose_by_definition(logits, options, position, history);
        const Choice found = sampler.choose(logits, options, position, history);
        ASSERT_EQ(found.id, expected.id) << "case " << seed << ", " << size << " logits";
        ASSERT_EQ(found.probability, expected.probability) << "case " << seed << ", " << size << " logits";
        ++draws;
        cut += found.probability < 1 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(draws, 3000);
  EXPECT_GT(cut, 500) << "most choices are no choice";
}

TEST(SamplerDefinition, AWholeVocabulary) {
  Sampler sampler;
  for (const Kind kind : {Kind::normal, Kind::equal, Kind::peaked}) {
    const std::vector<float> logits = logits_of(kind, 248320, 1);
    for (const auto& [top_k, top_p] : {std::pair{0, 0.95}, {50, 1.0}, {5000, 0.9}}) {
      const SamplingOptions options{.temperature = 0.8, .top_k = top_k, .top_p = top_p, .seed = 4};
      const Choice expected = choose_by_definition(logits, options, 17),
                   found = sampler.choose(logits, options, 17);
      EXPECT_EQ(found.id, expected.id) << top_k;
      EXPECT_EQ(found.probability, expected.probability) << top_k;
    }
  }
}

TEST(SamplerDefinition, ProbabilitiesAreThoseOfTheSoftmax) {
  const std::vector<float> logits = logits_of(Kind::normal, 50, 2);
  double sum = 0;
  for (float x : logits) sum += std::exp(static_cast<double>(x));
  Sampler sampler;
  for (int position = 0; position < 100; ++position) {
    const Choice found =
        sampler.choose(logits, {.temperature = 1, .top_k = 0, .top_p = 1, .seed = 1}, position);
    const double expected = std::exp(static_cast<double>(logits[static_cast<std::size_t>(found.id)])) / sum;
    EXPECT_NEAR(found.probability, expected, 2e-6 * expected + 1e-12);
  }
}

TEST(SamplerDefinition, EveryVariantOfThePassesHasTheSameBits) {
  for (const Kind kind : kKinds) {
    const std::vector<float> x = logits_of(kind, 3 * kSamplerBlock + 11, 5);
    const float top = *std::max_element(x.begin(), x.end());
    for (const SamplerKernels& set : usable_sampler_kernels()) {
      const std::size_t blocks = sampler_blocks(x.size());
      std::vector<float> d(x.size()), nearest(blocks), weights(x.size());
      std::vector<std::uint64_t> sums(blocks);
      EXPECT_EQ(set.highest(x.data(), x.size()), top) << set.name;
      set.distances(x.data(), x.size(), top, 0.7f, d.data(), nearest.data());
      set.weigh(d.data(), x.size(), weights.data(), sums.data());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float distance = x[i] == top ? 0.0f : (top - x[i]) / 0.7f;
        EXPECT_EQ(d[i], distance) << set.name << " " << i;
        EXPECT_EQ(num::bits_of(weights[i]), num::bits_of(num::exp(-distance))) << set.name << " " << i;
        EXPECT_LE(nearest[i / kSamplerBlock], d[i]);
        sums[i / kSamplerBlock] -=
            static_cast<std::uint64_t>(std::nearbyint(static_cast<double>(weights[i]) * 0x1p40));
      }
      EXPECT_EQ(std::count(sums.begin(), sums.end(), 0u), std::ssize(sums)) << set.name;
    }
    std::vector<float> broken = x;
    broken[70] = -NAN;
    for (const SamplerKernels& set : usable_sampler_kernels())
      EXPECT_TRUE(std::isnan(set.highest(broken.data(), broken.size()))) << set.name;
  }
}

/// The fastest of several, which other work on the machine disturbs least.
template <class Work>
double milliseconds(Work work) {
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const Stopwatch watch;
    work();
    best = std::min(best, watch.milliseconds());
  }
  return best;
}

/// A sort of this vocabulary takes about 500 times as long as a pass over it.
TEST(SamplerDefinition, TakesAFewPassesOverTheLogits) {
  const std::vector<float> logits = logits_of(Kind::peaked, 248320, 3);
  double sum = 0;
  const double pass = milliseconds([&] {
    for (float x : logits) sum += static_cast<double>(x);
  });
  ASSERT_NE(sum, 0);
  Sampler sampler;
  for (const auto& [top_k, top_p] : {std::pair{0, 1.0}, {0, 0.95}, {20, 0.95}, {0, 0.5}, {1000, 1.0}}) {
    const SamplingOptions options{.temperature = 0.8, .top_k = top_k, .top_p = top_p, .seed = 4};
    const double taken = milliseconds([&] { sampler.choose(logits, options, 17); });
    RecordProperty("ms_" + std::to_string(top_k) + "_" + std::to_string(top_p), std::to_string(taken));
    EXPECT_LT(taken, 20 * pass + 1) << "top_k " << top_k << ", top_p " << top_p << ", a pass takes " << pass
                                    << " ms";
  }
}

}  // namespace
}  // namespace tandem
