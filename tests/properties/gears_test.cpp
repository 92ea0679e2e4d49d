#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "backends/cpu/cpu_backend.hpp"
#include "core/error.hpp"
#include "tests/properties/mixed_gears.hpp"
#include "tests/properties/model_runs.hpp"

/// A model of mixed gears keeps the promise: variants, chunks, splits and batches cannot be seen.
namespace tandem {
namespace {

Context gears_cpu(const std::string& variant = "") {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(make_cpu_backend({.name = "cpu", .threads = 2, .variant = variant}));
  return Context(std::move(backends));
}

const Outcome& mixed_alone() {
  static const Outcome outcome = run_tokens(gears_cpu(), heldout_ids(kGearTokens), mixed_run());
  return outcome;
}

TEST(MixedGears, AreAllThereAndTheRunIsNotTrivial) {
  std::set<std::pair<Gear, Part>> seen;
  for (const Weight& weight : mixed_gears_model()->graph().weights()) {
    if (weight.group) seen.insert({weight.gear, *weight.group});
  }
  for (const Part group : {Part::gdn, Part::attention, Part::mlp}) {
    for (const Gear gear : {Gear::f32, Gear::bf16, Gear::q4, Gear::q4q8}) {
      EXPECT_TRUE(seen.contains({gear, group})) << name(group) << " in " << name(gear);
    }
  }
  double squares = 0;
  for (const float logit : mixed_alone().logits) {
    ASSERT_TRUE(std::isfinite(logit));
    squares += static_cast<double>(logit) * logit;
  }
  EXPECT_GT(squares / static_cast<double>(mixed_alone().logits.size()), 0.05);
  EXPECT_EQ(mixed_alone().layers.size(), static_cast<std::size_t>(kMixedLayers));
}

class MixedVariant : public testing::TestWithParam<const char*> {};
TEST_P(MixedVariant, DoesNotShow) {
  try {
    const Context context = gears_cpu(GetParam());
    expect_same(mixed_alone(), run_tokens(context, heldout_ids(kGearTokens), mixed_run()), GetParam());
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::unsupported) << error.what();
    GTEST_SKIP() << error.what();
  }
}
INSTANTIATE_TEST_SUITE_P(Gears, MixedVariant, testing::Values("scalar", "baseline", "avx2", "avx512"),
                         [](const auto& info) { return info.param; });

class MixedChunk : public testing::TestWithParam<int> {};
TEST_P(MixedChunk, DoesNotShow) {
  expect_same(mixed_alone(), run_tokens(gears_cpu(), heldout_ids(kGearTokens), mixed_run("cpu", GetParam())),
              "chunk");
}
INSTANTIATE_TEST_SUITE_P(Gears, MixedChunk, testing::Values(1, 3, 65), testing::PrintToStringParamName());

class MixedSplit : public testing::TestWithParam<const char*> {};
TEST_P(MixedSplit, DoesNotShow) {
  expect_same(mixed_alone(), run_tokens(two_cpus(), heldout_ids(kGearTokens), mixed_run(GetParam())),
              GetParam());
}
INSTANTIATE_TEST_SUITE_P(Gears, MixedSplit,
                         testing::Values("other", "cpu,other:0-23", "cpu,other:gdn", "other,cpu:mlp",
                                         "cpu,other:head", "cpu,other:8-15:gdn,other:20-31,other:attention"),
                         [](const auto& info) { return test_name(info.param); });

TEST(MixedGears, ABatchDoesNotShow) {
  const std::vector<Outcome> together = run_batch(gears_cpu(), "cpu", {3, 4, 1, 0, 2}, mixed_gears_model());
  for (int i = 0; i < kBatchSequences; ++i) {
    expect_same(run_tokens(gears_cpu(), batch_ids(i), mixed_run()), together[static_cast<std::size_t>(i)],
                "sequence " + std::to_string(i));
  }
}

TEST(MixedGears, ATrainedModelKeepsThePromiseToo) {
  const std::vector<TokenId> ids = heldout_ids(kGearTokens);
  RunOptions options;
  options.model = open_tiny(Gears::parse("gdn=q4,mlp=q4q8,head=q4,layer.3=bf16"));
  const Outcome expected = run_tokens(gears_cpu(), ids, options);
  options.chunk = 1;
  expect_same(expected, run_tokens(gears_cpu("scalar"), ids, options), "scalar, token by token");
  options.session.place = "cpu,other:mlp,other:head";
  options.session.residency = Residency::per_layer;
  expect_same(expected, run_tokens(two_cpus(), ids, options), "split");
}

}  // namespace
}  // namespace tandem
