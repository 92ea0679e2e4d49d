#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cpu/cpu_backend.hpp"
#include "core/error.hpp"
#include "tests/properties/model_runs.hpp"
#include "tests/share.hpp"

/// Where, how and beside whom a sequence runs cannot be seen in its result: 0 elements differ.
namespace tandem {
namespace {

/// At least three chunks of 65.
const std::size_t kTokens = std::max<std::size_t>(test::share_of(1024), 200);
/// More than one chunk of 64.
const std::size_t kSplitTokens = std::max<std::size_t>(test::share_of(200), 80);

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
  expect_same(plain_run(),
              run_tokens(one_cpu(2), heldout_ids(kTokens), {.model = {}, .session = {}, .chunk = GetParam()}),
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
  const std::vector<TokenId> ids = heldout_ids(kSplitTokens);
  static const Outcome expected = run_tokens(one_cpu(1), ids, {});
  expect_same(expected, run_tokens(two_cpus(), ids, options), GetParam());
}
INSTANTIATE_TEST_SUITE_P(Invariance, Split,
                         testing::Values("other", "cpu,other:0-3", "cpu,other:4-7", "cpu,other:3",
                                         "cpu,other:gdn", "other,cpu:gdn", "cpu,other:attention",
                                         "cpu,other:mlp", "other,cpu:mlp", "cpu,other:head",
                                         "other,cpu:embedding", "cpu,other:0,other:2,other:4,other:6",
                                         "cpu,other:gdn,cpu:2,other:head"),
                         [](const auto& info) { return test_name(info.param); });

const std::vector<Outcome>& alone() {
  static const std::vector<Outcome> outcomes = [] {
    std::vector<Outcome> each;
    for (int i = 0; i < kBatchSequences; ++i) each.push_back(run_tokens(one_cpu(1), batch_ids(i), {}));
    return each;
  }();
  return outcomes;
}

class Batch : public testing::TestWithParam<std::vector<int>> {};
TEST_P(Batch, DoesNotShowInAnyOrder) {
  const std::vector<Outcome> together = run_batch(one_cpu(2), "cpu", GetParam());
  for (std::size_t i = 0; i < together.size(); ++i) {
    expect_same(alone()[i], together[i], "sequence " + std::to_string(i));
  }
}
INSTANTIATE_TEST_SUITE_P(Invariance, Batch,
                         testing::Values(std::vector<int>{0, 1, 2, 3, 4}, std::vector<int>{4, 2, 0, 3, 1},
                                         std::vector<int>{3, 4, 1, 0, 2}));

}  // namespace
}  // namespace tandem
