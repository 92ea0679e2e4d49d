#include <gtest/gtest.h>

#include "core/error.hpp"
#include "graph/model/synthetic.hpp"
#include "tests/cuda/device.hpp"
#include "tests/properties/model_runs.hpp"

/// A model decodes the same bits on the CPU, on the GPU, and on both in any split: 0 elements differ.
namespace tandem {
namespace {

constexpr std::size_t kTokens = 1024;

/// One CPU thread, 64 tokens at a time.
const Outcome& on_the_cpu() {
  static const Outcome outcome = run_tokens(cpu_alone(1), heldout_ids(kTokens), {});
  return outcome;
}

RunOptions placed(const std::string& place, std::int64_t chunk = 64) {
  RunOptions options;
  options.session.place = place;
  options.chunk = chunk;
  return options;
}

class CudaSplit : public testing::TestWithParam<const char*> {};

TEST_P(CudaSplit, DoesNotShow) {
  SKIP_WITHOUT_DEVICE();
  for (int threads : {1, 8}) {
    expect_same(on_the_cpu(), run_tokens(cpu_and_gpu(threads), heldout_ids(kTokens), placed(GetParam())),
                GetParam());
  }
}
INSTANTIATE_TEST_SUITE_P(Cuda, CudaSplit,
                         testing::Values("cuda", "cpu,cuda:0-3", "cpu,cuda:4-7", "cpu,cuda:3-3", "cuda,cpu:0",
                                         "cpu,cuda:0-0,cuda:2-2,cuda:4-4,cuda:6-6",
                                         "cuda,cpu:0,cpu:2,cpu:4,cpu:6", "cpu,cuda:gdn", "cuda,cpu:gdn",
                                         "cuda,cpu:attention,cpu:mlp", "cpu,cuda:attention,cuda:mlp",
                                         "cpu,cuda:mlp", "cuda,cpu:mlp", "cpu,cuda:attention",
                                         "cpu,cuda:head", "cuda,cpu:embedding",
                                         "cpu,cuda:gdn,cpu:2,cuda:head", "cpu,cuda:2-5:mlp,cuda:1-1:gdn"),
                         [](const auto& info) { return test_name(info.param); });

class CudaChunk : public testing::TestWithParam<int> {};

TEST_P(CudaChunk, DoesNotShow) {
  SKIP_WITHOUT_DEVICE();
  const std::vector<TokenId> ids = heldout_ids(kTokens);
  expect_same(on_the_cpu(), run_tokens(cpu_and_gpu(), ids, placed("cuda", GetParam())), "on the GPU");
  expect_same(on_the_cpu(), run_tokens(cpu_and_gpu(), ids, placed("cpu,cuda:gdn", GetParam())), "split");
}
INSTANTIATE_TEST_SUITE_P(Cuda, CudaChunk, testing::Values(1, 3, 63, 64, 65, 1024),
                         testing::PrintToStringParamName());

class CudaBatch : public testing::TestWithParam<const char*> {};

TEST_P(CudaBatch, DoesNotShowInAnyOrder) {
  SKIP_WITHOUT_DEVICE();
  for (const std::vector<int>& order :
       {std::vector<int>{0, 1, 2, 3, 4}, std::vector<int>{4, 2, 0, 3, 1}, std::vector<int>{3, 4, 1, 0, 2}}) {
    const std::vector<Outcome> together = run_batch(cpu_and_gpu(), GetParam(), order);
    for (int i = 0; i < kBatchSequences; ++i) {
      expect_same(run_tokens(cpu_alone(1), batch_ids(i), {}), together[static_cast<std::size_t>(i)],
                  "sequence " + std::to_string(i));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Cuda, CudaBatch, testing::Values("cuda", "cpu,cuda:4-7", "cuda,cpu:mlp"),
                         [](const auto& info) { return test_name(info.param); });

/// More sequences than one launch has room for.
TEST(CudaModel, ALargeBatchGivesTheSameBits) {
  SKIP_WITHOUT_DEVICE();
  constexpr std::size_t kSequences = 150;
  const std::vector<TokenId> ids = heldout_ids(3 * kSequences);
  const auto run = [&](const Context& context, const char* place) {
    SessionOptions options;
    options.place = place;
    options.sequences = kSequences;
    options.context_tokens = 8;
    options.limits = {3 * kSequences, 3 * kSequences};
    Session session(context, tiny_model(), options);
    std::vector<SequenceTokens> step;
    for (std::size_t i = 0; i < kSequences; ++i) {
      step.push_back({session.open(), std::span(ids).subspan(3 * i, 1 + i % 3), Outputs::all});
    }
    return session.scheduler().step(step);
  };
  EXPECT_EQ(run(cpu_alone(), "cpu"), run(cpu_and_gpu(), "cuda"));
}

/// More pages than go with a launch.
TEST(CudaModel, ALongContextGivesTheSameBits) {
  SKIP_WITHOUT_DEVICE();
  RunOptions options;
  options.model = make_synthetic_model(parse_synthetic_spec("0.8B:layers=4,vocab=512"));
  options.chunk = 512;
  std::vector<TokenId> ids;
  for (TokenId i = 0; i < 9000; ++i) ids.push_back((i * i + 7 * i) % 512);
  const Outcome expected = run_tokens(cpu_alone(), ids, options);
  options.session.place = "cuda";
  expect_same(expected, run_tokens(cpu_and_gpu(), ids, options), "9000 tokens");
}

TEST(CudaModel, RollbackAndForkGiveTheSameBits) {
  SKIP_WITHOUT_DEVICE();
  const std::vector<TokenId> ids = heldout_ids(100);
  const Context context = cpu_and_gpu();
  SessionOptions options;
  options.place = "cuda";
  options.sequences = 2;
  options.kept_versions = 3;
  options.context_tokens = 256;
  Session session(context, tiny_model(), options);
  const SequenceId one = session.open();
  session.feed(one, std::span(ids).first(60), Outputs::none);
  const std::int64_t version = session.state().versions(one).back().number;
  const SequenceId two = session.state().fork(one);
  const std::vector<TokenId> other = {5, 6, 7};
  session.feed(one, other, Outputs::none);
  session.state().rollback(one, version);
  for (SequenceId sequence : {one, two}) {
    session.feed(sequence, std::span(ids).subspan(60), Outputs::last);
    Outcome found{{}, all_layers(session.state(), sequence)}, expected = run_tokens(cpu_alone(), ids, {});
    expected.logits.clear();
    expect_same(expected, found, "after rollback or fork");
  }
}

TEST(CudaModel, AnUnloadedLayerIsRefusedAndTheStateUntouched) {
  SKIP_WITHOUT_DEVICE();
  const std::vector<TokenId> ids = heldout_ids(20);
  const Context context = cpu_and_gpu();
  SessionOptions options;
  options.place = "cuda";
  Session session(context, tiny_model(), options);
  const SequenceId sequence = session.open();
  session.feed(sequence, std::span(ids).first(10), Outputs::none);
  for (int layer = 0; layer < 8; ++layer) {
    const std::vector<LayerState> before = all_layers(session.state(), sequence);
    const std::uint64_t free = context.backend(1).available_bytes();
    session.unload(layer, "cuda:0");
    EXPECT_FALSE(session.holds(layer, "cuda:0"));
    EXPECT_GE(context.backend(1).available_bytes(), free);
    try {
      session.feed(sequence, std::span(ids).subspan(10, 1), Outputs::last);
      ADD_FAILURE() << "layer " << layer << " ran without its weights";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::not_resident) << error.what();
      EXPECT_NE(std::string(error.what()).find("layer " + std::to_string(layer)), std::string::npos)
          << error.what();
    }
    EXPECT_TRUE(before == all_layers(session.state(), sequence)) << "layer " << layer;
    session.load(layer, "cuda:0");
  }
  session.feed(sequence, std::span(ids).subspan(10), Outputs::none);
  Outcome expected = run_tokens(cpu_alone(), ids, {});
  expected.logits.clear();
  expect_same(expected, {{}, all_layers(session.state(), sequence)}, "after loading again");
}

}  // namespace
}  // namespace tandem
