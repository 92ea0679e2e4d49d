#include "graph/session/sampler.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "tests/graph/expect_error.hpp"

namespace tandem {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TokenId choose(std::span<const float> logits, const SamplingOptions& options, std::int64_t position) {
  return Sampler().choose(logits, options, position).id;
}

TEST(Sampler, GreedyTakesTheLowestIndexAmongEquals) {
  EXPECT_EQ(choose_greedily(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(choose_greedily(std::vector<float>{-kInf, -kInf}), 0);
  EXPECT_EQ(choose(std::vector<float>{1, 3, 3, 2}, {.temperature = 0, .top_k = 0, .top_p = 1, .seed = 5}, 9),
            1);
}

TEST(Sampler, ANaNIsDamage) {
  const std::vector<float> logits{1, NAN, 2};
  expect_error(ErrorCode::corrupt, "token 1", [&] { choose_greedily(logits); });
  expect_error(ErrorCode::corrupt, "token 1",
               [&] { choose(logits, {.temperature = 1, .top_k = 0, .top_p = 1, .seed = 0}, 0); });
}

TEST(Sampler, RefusesOptionsWithoutMeaning) {
  const auto check = [](SamplingOptions options) { return [=] { validate(options); }; };
  expect_error(ErrorCode::invalid_argument, "temperature",
               check({.temperature = -1, .top_k = 0, .top_p = 1, .seed = 0}));
  expect_error(ErrorCode::invalid_argument, "temperature",
               check({.temperature = NAN, .top_k = 0, .top_p = 1, .seed = 0}));
  expect_error(ErrorCode::invalid_argument, "top-k",
               check({.temperature = 1, .top_k = -1, .top_p = 1, .seed = 0}));
  expect_error(ErrorCode::invalid_argument, "top-p",
               check({.temperature = 1, .top_k = 0, .top_p = 0, .seed = 0}));
  expect_error(ErrorCode::invalid_argument, "top-p",
               check({.temperature = 1, .top_k = 0, .top_p = 1.5, .seed = 0}));
}

TEST(Sampler, RefusesPenaltiesWithoutMeaning) {
  const auto refused = [](const char* words, auto change) {
    SamplingOptions options;
    change(options);
    expect_error(ErrorCode::invalid_argument, words, [&] { validate(options); });
  };
  refused("min-p", [](SamplingOptions& o) { o.min_p = -0.1; });
  refused("min-p", [](SamplingOptions& o) { o.min_p = 1.1; });
  refused("min-p", [](SamplingOptions& o) { o.min_p = NAN; });
  refused("repeat-penalty", [](SamplingOptions& o) { o.repeat_penalty = 0; });
  refused("repeat-penalty", [](SamplingOptions& o) { o.repeat_penalty = NAN; });
  refused("presence-penalty", [](SamplingOptions& o) { o.presence_penalty = kInf; });
  refused("frequency-penalty", [](SamplingOptions& o) { o.frequency_penalty = -2e6; });
  refused("repeat-last-n", [](SamplingOptions& o) { o.repeat_last_n = -2; });
}

TEST(Sampler, PenaltiesLowerWhatWasThere) {
  Sampler sampler;
  const std::vector<float> logits{2, -1, 1.9f, -3};
  const auto best = [&](auto change, std::vector<TokenId> history) {
    SamplingOptions options;
    change(options);
    return sampler.choose(logits, options, 0, history).id;
  };
  const auto repeat = [](SamplingOptions& o) { o.repeat_penalty = 1.5; };
  EXPECT_EQ(best(repeat, {}), 0);
  EXPECT_EQ(best(repeat, {0}), 2);
  EXPECT_EQ(best(repeat, {0, 2}), 0) << "both are divided";
  EXPECT_EQ(best([](SamplingOptions& o) { o.presence_penalty = 0.2; }, {0, 0}), 2);
  EXPECT_EQ(best([](SamplingOptions& o) { o.frequency_penalty = 0.06; }, {0}), 0);
  EXPECT_EQ(best([](SamplingOptions& o) { o.frequency_penalty = 0.06; }, {0, 0}), 2);
  const auto window = [&](std::int64_t n) {
    return [=](SamplingOptions& o) {
      o.repeat_penalty = 1.5;
      o.repeat_last_n = n;
    };
  };
  EXPECT_EQ(best(window(2), {0, 1, 3}), 0) << "too long ago";
  EXPECT_EQ(best(window(3), {0, 1, 3}), 2);
  EXPECT_EQ(best(window(-1), {0, 1, 3}), 2);
  EXPECT_EQ(best(window(0), {0}), 0);
  expect_error(ErrorCode::invalid_argument, "token 4 of the history", [&] { best(repeat, {4}); });
  EXPECT_EQ(best(repeat, {}), 0) << "a refused history leaves nothing behind";
}

std::map<TokenId, double> frequencies(const std::vector<float>& logits, SamplingOptions options) {
  constexpr int kDraws = 20000;
  std::map<TokenId, double> seen;
  Sampler sampler;
  for (int i = 0; i < kDraws; ++i) seen[sampler.choose(logits, options, i).id] += 1.0 / kDraws;
  return seen;
}

TEST(Sampler, DrawsByProbability) {
  const std::vector<float> logits{std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  const auto seen = frequencies(logits, {.temperature = 1, .top_k = 0, .top_p = 1, .seed = 3});
  EXPECT_NEAR(seen.at(0), 0.1, 0.02);
  EXPECT_NEAR(seen.at(1), 0.6, 0.02);
  EXPECT_NEAR(seen.at(2), 0.3, 0.02);
}

TEST(Sampler, ALowTemperatureSharpens) {
  const std::vector<float> logits{0, 1, 0.5f};
  const auto warm = frequencies(logits, {.temperature = 1, .top_k = 0, .top_p = 1, .seed = 3});
  const auto cold = frequencies(logits, {.temperature = 0.2, .top_k = 0, .top_p = 1, .seed = 3});
  EXPECT_GT(cold.at(1), warm.at(1) + 0.2);
}

TEST(Sampler, TopKAndTopPCutTheTail) {
  const std::vector<float> logits{std::log(0.1f), std::log(0.5f), std::log(0.25f), std::log(0.15f)};
  const auto tokens = [&](std::int64_t top_k, double top_p) {
    std::set<TokenId> seen;
    for (const auto& [id, share] :
         frequencies(logits, {.temperature = 1, .top_k = top_k, .top_p = top_p, .seed = 1}))
      seen.insert(id);
    return seen;
  };
  EXPECT_EQ(tokens(1, 1), (std::set<TokenId>{1}));
  EXPECT_EQ(tokens(2, 1), (std::set<TokenId>{1, 2}));
  EXPECT_EQ(tokens(100, 1), (std::set<TokenId>{0, 1, 2, 3}));
  EXPECT_EQ(tokens(0, 0.4), (std::set<TokenId>{1}));
  EXPECT_EQ(tokens(0, 0.7), (std::set<TokenId>{1, 2}));
  EXPECT_EQ(tokens(0, 1e-9), (std::set<TokenId>{1}));
}

TEST(Sampler, InfiniteLogitsStayChoosable) {
  const SamplingOptions options{.temperature = 1, .top_k = 0, .top_p = 1, .seed = 0};
  EXPECT_EQ(choose(std::vector<float>{-kInf, 0, -kInf}, options, 0), 1);
  EXPECT_EQ(choose(std::vector<float>{0, kInf, 1}, options, 0), 1);
}

TEST(Sampler, TheDrawDependsOnSeedAndPositionAlone) {
  const std::vector<float> logits(1000, 0.0f);
  const SamplingOptions seven{.temperature = 1, .top_k = 0, .top_p = 1, .seed = 7};
  const SamplingOptions eight{.temperature = 1, .top_k = 0, .top_p = 1, .seed = 8};
  EXPECT_EQ(choose(logits, seven, 3), choose(logits, seven, 3));
  int same_position = 0, same_seed = 0;
  for (int i = 0; i < 100; ++i) {
    same_position += choose(logits, seven, i) == choose(logits, eight, i) ? 1 : 0;
    same_seed += choose(logits, seven, i) == choose(logits, seven, i + 1) ? 1 : 0;
  }
  EXPECT_LT(same_position, 5);
  EXPECT_LT(same_seed, 5);
}

}  // namespace
}  // namespace tandem
