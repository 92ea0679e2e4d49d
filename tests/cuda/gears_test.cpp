#include <gtest/gtest.h>

#include "graph/model/synthetic.hpp"
#include "tests/cuda/device.hpp"
#include "tests/properties/mixed_gears.hpp"
#include "tests/properties/model_runs.hpp"

/// Models of mixed gears: the GPU and every split give the bits of the CPU.
namespace tandem {
namespace {

const Outcome& mixed_on_the_cpu() {
  static const Outcome outcome = run_tokens(cpu_alone(), heldout_ids(kGearTokens), mixed_run("cpu"));
  return outcome;
}

class CudaMixedGears : public testing::TestWithParam<const char*> {};

TEST_P(CudaMixedGears, DoNotShow) {
  SKIP_WITHOUT_DEVICE();
  for (const std::int64_t chunk : {1, 3, 64}) {
    expect_same(mixed_on_the_cpu(),
                run_tokens(cpu_and_gpu(), heldout_ids(kGearTokens), mixed_run(GetParam(), chunk)),
                std::string(GetParam()) + " in chunks of " + std::to_string(chunk));
  }
}
INSTANTIATE_TEST_SUITE_P(Cuda, CudaMixedGears,
                         testing::Values("cuda", "cpu,cuda:0-23", "cpu,cuda:24-47", "cpu,cuda:gdn",
                                         "cuda,cpu:mlp", "cpu,cuda:mlp", "cuda,cpu:head",
                                         "cpu,cuda:8-15:gdn,cuda:20-31,cuda:attention"),
                         [](const auto& info) { return test_name(info.param); });

TEST(CudaGears, ABatchDoesNotShow) {
  SKIP_WITHOUT_DEVICE();
  for (const char* place : {"cuda", "cuda,cpu:mlp"}) {
    const std::vector<Outcome> together =
        run_batch(cpu_and_gpu(), place, {3, 4, 1, 0, 2}, mixed_gears_model());
    for (int i = 0; i < kBatchSequences; ++i) {
      expect_same(run_tokens(cpu_alone(), batch_ids(i), mixed_run("cpu")),
                  together[static_cast<std::size_t>(i)], "sequence " + std::to_string(i));
    }
  }
}

TEST(CudaGears, ATrainedModelGivesTheSameBits) {
  SKIP_WITHOUT_DEVICE();
  const std::vector<TokenId> ids = heldout_ids(kGearTokens);
  for (const char* gears : {"q4", "q4q8", "gdn=q4,mlp=q4q8,head=bf16,layer.3=f32"}) {
    RunOptions options;
    options.model = open_tiny(Gears::parse(gears));
    const Outcome expected = run_tokens(cpu_alone(), ids, options);
    for (const char* place : {"cuda", "cpu,cuda:gdn", "cuda,cpu:mlp"}) {
      options.session.place = place;
      expect_same(expected, run_tokens(cpu_and_gpu(), ids, options), std::string(gears) + " on " + place);
    }
  }
}

/// Real widths: four layers of a 27B.
TEST(CudaGears, LayersOfTheRealSizeGiveTheSameBits) {
  SKIP_WITHOUT_DEVICE();
  std::vector<TokenId> ids;
  for (TokenId i = 0; i < 20; ++i) ids.push_back((i * i + 7 * i) % 512);
  for (const char* gears : {"q4", "q4q8"}) {
    RunOptions options;
    options.model = make_synthetic_model(parse_synthetic_spec("27B:layers=4,vocab=512"), Gears::parse(gears));
    options.chunk = 8;
    const Outcome expected = run_tokens(cpu_alone(), ids, options);
    options.session.place = "cuda";
    expect_same(expected, run_tokens(cpu_and_gpu(), ids, options), gears);
  }
}

}  // namespace
}  // namespace tandem
