#include "graph/model/synthetic.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/session/generate.hpp"
#include "tests/cuda/device.hpp"
#include "tests/properties/model_runs.hpp"

/// Models of published sizes with random weights, made on the device that needs them.
namespace tandem {
namespace {

constexpr std::size_t kSyntheticTokens = 64;

std::vector<TokenId> some_ids(std::size_t count, std::int64_t vocab) {
  const CounterRandom random("ids", 1);
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<TokenId>(random.bits(i) % static_cast<std::uint64_t>(vocab)));
  }
  return ids;
}

std::shared_ptr<const Model> model_of(const char* spec) {
  return make_synthetic_model(parse_synthetic_spec(spec));
}

RunOptions placed(const std::shared_ptr<const Model>& model, const char* place) {
  RunOptions options;
  options.model = model;
  options.session.place = place;
  options.chunk = 16;
  return options;
}

class CudaSynthetic : public testing::TestWithParam<const char*> {};

TEST_P(CudaSynthetic, ASplit08BGivesTheBitsOfTheGpu) {
  SKIP_WITHOUT_DEVICE();
  static const std::shared_ptr<const Model> model = model_of("0.8B");
  static const std::vector<TokenId> ids = some_ids(kSyntheticTokens, model->config().vocab_size);
  static const Outcome expected = run_tokens(cpu_and_gpu(), ids, placed(model, "cuda"));
  expect_same(expected, run_tokens(cpu_and_gpu(), ids, placed(model, GetParam())), GetParam());
}
INSTANTIATE_TEST_SUITE_P(
    Cuda, CudaSynthetic,
    testing::Values("cpu", "cpu,cuda:0-11", "cpu,cuda:12-23", "cuda,cpu:7", "cpu,cuda:gdn", "cuda,cpu:gdn",
                    "cuda,cpu:attention,cpu:mlp", "cpu,cuda:attention,cuda:mlp", "cpu,cuda:mlp",
                    "cuda,cpu:mlp", "cpu,cuda:attention", "cuda,cpu:attention", "cpu,cuda:head",
                    "cuda,cpu:head", "cuda,cpu:embedding",
                    "cuda,cpu:0,cpu:2,cpu:4,cpu:6,cpu:8,cpu:10,cpu:12,cpu:14,cpu:16,cpu:18,cpu:20,cpu:22"),
    [](const auto& info) { return test_name(info.param); });

/// 64 layers, 54 GB in bf16.
TEST(CudaSynthetic27B, DecodesTheSameAloneAndInChunks) {
  SKIP_WITHOUT_DEVICE();
  constexpr std::uint64_t kNeeds = std::uint64_t{62} << 30;
  if (const std::uint64_t free = make_cuda_backend({})->available_bytes(); free < kNeeds) {
    GTEST_SKIP() << "62 GiB of GPU memory are needed, " << human_bytes(free) << " are free";
  }
  const std::shared_ptr<const Model> model = model_of("27B");
  EXPECT_EQ(model->config().num_hidden_layers, 64);
  const std::vector<TokenId> ids = some_ids(24, model->config().vocab_size);
  RunOptions options = placed(model, "cuda");
  const Outcome chunks = run_tokens(cpu_and_gpu(), ids, options);
  for (float logit : chunks.logits) ASSERT_TRUE(std::isfinite(logit));
  options.chunk = 1;
  expect_same(chunks, run_tokens(cpu_and_gpu(), ids, options), "token by token");
}

}  // namespace
}  // namespace tandem
