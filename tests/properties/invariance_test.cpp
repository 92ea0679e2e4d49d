#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cpu/cpu_backend.hpp"
#include "core/error.hpp"
#include "tests/properties/model_runs.hpp"

/// Where, how and beside whom a sequence runs cannot be seen in its result: 0 elements differ.
namespace tandem {
namespace {

constexpr std::size_t kTokens = 1024;

Context one_cpu(int threads, const std::string& variant = "") {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(make_cpu_backend({.name = "cpu", .threads = threads, .variant = variant}));
  return Context(std::move(backends));
}

/// One thread, 64 tokens at a time.
const Outcome& plain_run() {
  static const Outcome outcome = run_tokens(one_cpu(1), heldout_ids(kTokens), {});
  return outcome;
}

TEST(Invariance, ThePlainRunIsNotTrivial) {
  const Outcome& plain = plain_run();
  ASSERT_EQ(plain.logits.size(), kTokens * 2048);
  EXPECT_NE(plain.logits.front(), plain.logits.back());
  EXPECT_EQ(plain.layers.size(), 8u);
}

class Threads_ : public testing::TestWithParam<int> {};
TEST_P(Threads_, DoNotShow) {
  expect_same(plain_run(), run_tokens(one_cpu(GetParam()), heldout_ids(kTokens), {}), "threads");
}
INSTANTIATE_TEST_SUITE_P(Invariance, Threads_, testing::Values(2, 3, 8), testing::PrintToStringParamName());

class Chunk : public testing::TestWithParam<int> {};
TEST_P(Chunk, DoesNotShow) {
  expect_same(plain_run(), run_tokens(one_cpu(2), heldout_ids(kTokens), {.session = {}, .chunk = GetParam()}),
              "chunk");
}
INSTANTIATE_TEST_SUITE_P(Invariance, Chunk, testing::Values(1, 3, 63, 65, 1024),
                         testing::PrintToStringParamName());

class Variant : public testing::TestWithParam<const char*> {};
TEST_P(Variant, DoesNotShow) {
  const std::size_t tokens = 96;  // the definition is slow
  try {
    const Outcome expected = run_tokens(one_cpu(1), heldout_ids(tokens), {});
    expect_same(expected, run_tokens(one_cpu(2, GetParam()), heldout_ids(tokens), {}), GetParam());
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::unsupported) << error.what();
    GTEST_SKIP() << error.what();
  }
}
INSTANTIATE_TEST_SUITE_P(Invariance, Variant, testing::Values("scalar", "baseline", "avx2", "avx512"),
                         [](const auto& info) { return info.param; });

class Split : public testing::TestWithParam<const char*> {};
TEST_P(Split, DoesNotShow) {
  RunOptions options;
  options.session.place = GetParam();
  options.session.residency = Residency::per_layer;
  const std::vector<TokenId> ids = heldout_ids(200);
  static const Outcome expected = run_tokens(one_cpu(1), ids, {});
  expect_same(expected, run_tokens(two_cpus(), ids, options), GetParam());
}
INSTANTIATE_TEST_SUITE_P(Invariance, Split,
                         testing::Values("other", "cpu,other:0-3", "cpu,other:4-7", "cpu,other:3",
                                         "cpu,other:gdn", "other,cpu:gdn", "cpu,other:attention",
                                         "cpu,other:mlp", "other,cpu:mlp", "cpu,other:head",
                                         "other,cpu:embedding", "cpu,other:0,other:2,other:4,other:6",
                                         "cpu,other:gdn,cpu:2,other:head"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

/// Five sequences of different texts and lengths, taken together in steps of ragged sizes.
class Batch : public testing::TestWithParam<std::vector<int>> {
 protected:
  static constexpr int kSequences = 5;
  static std::vector<TokenId> tokens_of(int sequence) {
    const std::vector<TokenId> all = heldout_ids(600);
    const std::size_t first = static_cast<std::size_t>(sequence) * 97,
                      count = 40 + static_cast<std::size_t>(sequence) * 37;
    return {all.begin() + static_cast<std::ptrdiff_t>(first),
            all.begin() + static_cast<std::ptrdiff_t>(first + count)};
  }
};

TEST_P(Batch, DoesNotShowInAnyOrder) {
  const Context context = one_cpu(2);
  SessionOptions options;
  options.sequences = kSequences;
  options.context_tokens = 256;
  Session session(context, tiny_model(), options);
  std::vector<SequenceId> ids;
  std::vector<std::vector<TokenId>> tokens;
  std::vector<Outcome> together(kSequences);
  std::vector<std::size_t> done(kSequences, 0);
  for (int i = 0; i < kSequences; ++i) {
    ids.push_back(session.open());
    tokens.push_back(tokens_of(i));
  }
  for (std::size_t round = 0;; ++round) {
    std::vector<SequenceTokens> step;
    std::vector<std::size_t> members;
    for (int which : GetParam()) {
      const auto i = static_cast<std::size_t>(which);
      const std::size_t left = tokens[i].size() - done[i];
      const std::size_t count = std::min<std::size_t>(left, 1 + (round * 5 + i * 3) % 11);
      if (count == 0) continue;
      step.push_back({ids[i], std::span(tokens[i]).subspan(done[i], count), Outputs::all});
      members.push_back(i);
      done[i] += count;
    }
    if (step.empty()) break;
    const std::vector<std::vector<float>> logits = session.scheduler().step(step);
    for (std::size_t m = 0; m < members.size(); ++m) {
      std::vector<float>& all = together[members[m]].logits;
      all.insert(all.end(), logits[m].begin(), logits[m].end());
    }
  }
  for (std::size_t i = 0; i < kSequences; ++i) {
    together[i].layers = all_layers(session.state(), ids[i]);
    expect_same(run_tokens(one_cpu(1), tokens[i], {}), together[i], "sequence " + std::to_string(i));
  }
}
INSTANTIATE_TEST_SUITE_P(Invariance, Batch,
                         testing::Values(std::vector<int>{0, 1, 2, 3, 4}, std::vector<int>{4, 2, 0, 3, 1},
                                         std::vector<int>{3, 4, 1, 0, 2}));

}  // namespace
}  // namespace tandem
