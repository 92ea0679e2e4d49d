#include <gtest/gtest.h>

#include <cstdlib>

#include "core/threads.hpp"
#include "tests/cuda/device.hpp"
#include "tests/properties/model_runs.hpp"
#include "tools/oracle/check.hpp"
#include "tools/oracle/layer_run.hpp"

/// A Gated DeltaNet layer with the sizes of a 27B model.
namespace tandem {
namespace {

using tools::GeneratedLayer;
using tools::LayerRun;

const GeneratedLayer& layer() {
  static const GeneratedLayer read = tools::read_generated_layer(
      std::filesystem::path(std::getenv("TANDEM_TEST_DATA")) / "oracle" / "gdn_27b");
  return read;
}

std::shared_ptr<const Model> model_at(tools::LayerPlace place) {
  Threads threads(0);
  return tools::make_generated_model(layer(), threads, place);
}

/// Inputs of the first tokens.
std::span<const float> inputs(std::int64_t tokens) {
  static const std::vector<float> all = tools::generated_inputs(layer());
  return std::span(all).first(static_cast<std::size_t>(tokens * layer().hidden));
}

TEST(CudaLayer27B, FollowsTheOracle) {
  SKIP_WITHOUT_DEVICE();
  tools::OracleReport report;
  tools::check_layer_oracle(layer().folder, cpu_and_gpu(), "cuda:0", report);
  EXPECT_FALSE(report.lines().empty());
  for (const tools::OracleLine& line : report.lines()) EXPECT_TRUE(line.ok) << tools::to_text(line);
}

TEST(CudaLayer27B, FiveHundredTokensGiveTheBitsOfTheCpu) {
  SKIP_WITHOUT_DEVICE();
  constexpr std::int64_t kTokens = 512, kChunk = 64;
  const Context context = cpu_and_gpu();
  const std::shared_ptr<const Model> model = model_at({});
  LayerRun cpu(context, "cpu", model, kChunk), gpu(context, "cuda:0", model, kChunk);
  const std::span<const float> x = inputs(kTokens);
  const std::size_t chunk = static_cast<std::size_t>(kChunk * layer().hidden);
  for (std::size_t at = 0; at < x.size(); at += chunk) {
    const std::vector<float> out = cpu.step(x.subspan(at, chunk));
    ASSERT_EQ(count_different(out, gpu.step(x.subspan(at, chunk))), 0) << "from element " << at;
  }
  EXPECT_TRUE(cpu.state() == gpu.state());
}

/// A layer's place in a state of 48 layers is an offset, and nothing else.
TEST(CudaLayer27B, FirstAndLastOfFortyEightLayersGiveTheSameBits) {
  SKIP_WITHOUT_DEVICE();
  constexpr std::int64_t kTokens = 5;
  const Context context = cpu_and_gpu();
  LayerRun first(context, "cuda:0", model_at({0, 48}), kTokens),
      last(context, "cuda:0", model_at({47, 48}), kTokens);
  const std::vector<float> out = first.step(inputs(kTokens));
  EXPECT_EQ(out.size(), 25600u);
  EXPECT_EQ(count_different(out, last.step(inputs(kTokens))), 0);
  EXPECT_TRUE(first.state() == last.state());
}

TEST(CudaLayer27B, AReplayAfterResetGivesTheSameBits) {
  SKIP_WITHOUT_DEVICE();
  constexpr std::int64_t kTokens = 16;
  const Context context = cpu_and_gpu();
  LayerRun run(context, "cuda:0", model_at({}), kTokens);
  const std::vector<float> out = run.step(inputs(kTokens));
  const LayerState state = run.state();
  EXPECT_GT(count_different(out, run.step(inputs(kTokens))), 0) << "the state must matter";
  run.reset();
  EXPECT_EQ(count_different(out, run.step(inputs(kTokens))), 0);
  EXPECT_TRUE(state == run.state());
}

}  // namespace
}  // namespace tandem
