#include <gtest/gtest.h>

#include <optional>

#include "tests/cuda/device.hpp"
#include "tests/properties/model_runs.hpp"

/// State that moves between CPU and GPU in the middle of a text cannot be seen in it: 0 elements differ.
namespace tandem {
namespace {

constexpr int kLayers = 8;
constexpr std::size_t kBoundaries = 17;

class CudaMigration : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_DEVICE();
    context_.emplace(cpu_and_gpu());
    SessionOptions options;
    options.homes = {"cpu", "cuda:0"};
    options.residency = Residency::per_layer;
    options.sequences = 3;
    options.kept_versions = 3;
    options.context_tokens = 64;
    session_ = std::make_unique<Session>(*context_, tiny_model(), options);
    for (int layer = 0; layer < kLayers; ++layer) session_->load(layer, "cuda:0");
  }

  std::vector<float> feed(SequenceId sequence, std::size_t first, std::size_t count) {
    return session_->feed(sequence, std::span(ids_).subspan(first, count), Outputs::all);
  }

  Outcome undisturbed(SequenceId sequence, std::size_t first) {
    const SequenceId fork = session_->fork(sequence);
    Outcome outcome{feed(fork, first, 6), all_layers(session_->state(), fork)};
    session_->state().close(fork);
    return outcome;
  }

  /// To the GPU for four tokens, and back for another two.
  Outcome there_and_back(SequenceId sequence, std::size_t first, const std::vector<int>& layers) {
    const SequenceId fork = session_->fork(sequence);
    session_->migrate(fork, layers, "cuda:0");
    Outcome outcome{feed(fork, first, 4), {}};
    session_->migrate(fork, layers, "cpu");
    const std::vector<float> back = feed(fork, first + 4, 2);
    outcome.logits.insert(outcome.logits.end(), back.begin(), back.end());
    outcome.layers = all_layers(session_->state(), fork);
    session_->state().close(fork);
    return outcome;
  }

  std::optional<Context> context_;
  std::unique_ptr<Session> session_;
  const std::vector<TokenId> ids_ = heldout_ids(64);
};

TEST_F(CudaMigration, EveryLayerAtEveryTokenThereAndBack) {
  const SequenceId sequence = session_->open();
  for (std::size_t t = 0; t < kBoundaries; ++t) {
    const Outcome expected = undisturbed(sequence, t);
    for (int layer = 0; layer < kLayers; ++layer) {
      expect_same(expected, there_and_back(sequence, t, {layer}),
                  "layer " + std::to_string(layer) + " at token " + std::to_string(t));
    }
    expect_same(expected, there_and_back(sequence, t, {}), "all layers at token " + std::to_string(t));
    feed(sequence, t, 1);
  }
}

TEST_F(CudaMigration, MovesAsManyBytesAsItSays) {
  const SequenceId sequence = session_->open();
  feed(sequence, 0, 40);
  feed(sequence, 40, 1);
  const Backend &cpu = context_->backend(0), &gpu = context_->backend(1);
  const Traffic before = gpu.traffic(), host = cpu.traffic();
  const MigrationReport there = session_->migrate(sequence, {}, "cuda:0");
  const Traffic between = gpu.traffic();
  EXPECT_EQ(between.uploaded - before.uploaded, static_cast<std::uint64_t>(there.bytes));
  EXPECT_EQ(between.downloaded, before.downloaded) << "only checksums are read back";
  EXPECT_GT(between.checksums, before.checksums);
  EXPECT_GT(there.bytes, 0);
  EXPECT_EQ(there.layers.size(), static_cast<std::size_t>(kLayers));
  const MigrationReport back = session_->migrate(sequence, {}, "cpu");
  EXPECT_EQ(back.bytes, there.bytes);
  EXPECT_EQ(gpu.traffic().uploaded, between.uploaded);
  EXPECT_EQ(gpu.traffic().downloaded - between.downloaded, static_cast<std::uint64_t>(back.bytes));
  EXPECT_EQ(cpu.traffic(), host) << "the device copies by itself";
  for (std::size_t i = 0; i < there.layers.size(); ++i)
    EXPECT_EQ(there.layers[i].versions, back.layers[i].versions) << "layer " << i;
}

TEST_F(CudaMigration, ALostLayerFollowsItsPolicy) {
  for (MissPolicy policy : {MissPolicy::migrate, MissPolicy::replay}) {
    const SequenceId sequence = session_->open(policy);
    feed(sequence, 0, 20);
    const Outcome expected = undisturbed(sequence, 20);
    session_->unload(2, "cpu");
    session_->unload(3, "cpu");
    Outcome found{feed(sequence, 20, 6), {}};
    found.layers = all_layers(session_->state(), sequence);
    expect_same(expected, found, std::string(name(policy)));
    EXPECT_EQ(session_->state().home(sequence, 2), 1);
    EXPECT_EQ(session_->state().home(sequence, 3), 1);
    session_->load(2, "cpu");
    session_->load(3, "cpu");
    session_->state().close(sequence);
  }
}

}  // namespace
}  // namespace tandem
