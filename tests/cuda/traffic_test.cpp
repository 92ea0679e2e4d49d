#include <gtest/gtest.h>

#include <optional>

#include "tests/cuda/device.hpp"
#include "tests/properties/model_runs.hpp"

/// What crosses the bus is what the placement says, to the byte. A state crosses when somebody asks for it
/// and never else: a copy that nobody counted would show here.
namespace tandem {
namespace {

constexpr std::uint64_t kIndex = sizeof(std::int32_t), kReal = sizeof(float);
constexpr std::size_t kBefore = 40;

class CudaTraffic : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_DEVICE();
    context_.emplace(cpu_and_gpu());
  }

  /// A session that has seen some tokens.
  void start(const std::string& place) {
    SessionOptions options;
    options.place = place;
    options.context_tokens = 256;
    session_ = std::make_unique<Session>(*context_, tiny_model(), options);
    sequence_ = session_->open();
    session_->feed(sequence_, std::span(ids_).first(kBefore), Outputs::none);
  }

  Traffic traffic() const { return context_->backend(1).traffic(); }

  /// What a step of some tokens moves, with the logits of the last.
  Traffic moved_by_step(std::size_t tokens) {
    const Traffic before = traffic();
    session_->feed(sequence_, std::span(ids_).subspan(kBefore, tokens), Outputs::last);
    const Traffic after = traffic();
    return {after.uploaded - before.uploaded, after.downloaded - before.downloaded,
            after.weights - before.weights, after.arguments - before.arguments};
  }

  static std::uint64_t hidden_bytes() {
    return static_cast<std::uint64_t>(tiny_model()->config().hidden_size) * kReal;
  }
  static std::uint64_t logits_bytes() {
    return static_cast<std::uint64_t>(tiny_model()->config().vocab_size) * kReal;
  }
  static std::uint64_t gdn_layers() {
    return static_cast<std::uint64_t>(tiny_model()->config().count(LayerKind::recurrent));
  }

  std::optional<Context> context_;
  std::vector<TokenId> ids_ = heldout_ids(100);
  std::unique_ptr<Session> session_;
  SequenceId sequence_;
};

TEST_F(CudaTraffic, LoadingMovesEachWeightOnce) {
  start("cuda");
  EXPECT_EQ(traffic().weights, static_cast<std::uint64_t>(tiny_model()->weight_bytes()));
}

TEST_F(CudaTraffic, AStepOnTheGpuMovesIndicesAndLogits) {
  start("cuda");
  for (std::size_t tokens : {std::size_t{1}, std::size_t{7}}) {
    const Traffic expected{(2 * tokens + 1) * kIndex, logits_bytes(), 0, 0};
    EXPECT_EQ(moved_by_step(tokens), expected) << tokens << " tokens";
  }
}

TEST_F(CudaTraffic, ASplitStepMovesTheHiddenVectorsThatItsPlanSays) {
  start("cpu,cuda:gdn");
  for (std::size_t tokens : {std::size_t{1}, std::size_t{7}}) {
    const std::uint64_t crossed = session_->executor().crossed_bytes(),
                        crossings = session_->executor().crossings();
    const std::uint64_t each_way = gdn_layers() * tokens * hidden_bytes();
    EXPECT_EQ(moved_by_step(tokens), (Traffic{each_way, each_way, 0, 0})) << tokens << " tokens";
    EXPECT_EQ(session_->executor().crossed_bytes() - crossed, 2 * each_way);
    EXPECT_EQ(2 * each_way, tokens * static_cast<std::uint64_t>(session_->plan().crossing_bytes_per_token));
    EXPECT_EQ(session_->executor().crossings() - crossings, 2 * gdn_layers());
  }
}

TEST_F(CudaTraffic, AStateCrossesWhenItIsAskedFor) {
  start("cuda");
  const StateGeometry& geometry = session_->state().geometry();
  for (int layer = 0; layer < static_cast<int>(geometry.layers.size()); ++layer) {
    const Traffic before = traffic();
    const LayerState state = export_layer(session_->state(), sequence_, layer);
    const std::uint64_t bytes =
        geometry.layers[static_cast<std::size_t>(layer)] == LayerKind::recurrent
            ? state.bytes.size()
            : static_cast<std::uint64_t>(geometry.pages_for(kBefore) * geometry.page_bytes());
    EXPECT_EQ(traffic().downloaded - before.downloaded, bytes) << "layer " << layer;
    EXPECT_EQ(traffic().uploaded, before.uploaded);
  }
}

TEST_F(CudaTraffic, VerbsOnVersionsMoveNothing) {
  start("cuda");
  const std::int64_t version = session_->state().versions(sequence_).back().number;
  const Traffic before = traffic();
  session_->state().rollback(sequence_, version);
  { const StateStep dropped = session_->state().begin(sequence_, 3); }
  session_->state().reset(sequence_);
  session_->state().close(sequence_);
  EXPECT_EQ(traffic(), before);
}

}  // namespace
}  // namespace tandem
