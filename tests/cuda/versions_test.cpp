#include <gtest/gtest.h>

#include <optional>

#include "graph/session/verify.hpp"
#include "tests/cuda/device.hpp"
#include "tests/properties/model_runs.hpp"

/// Drafts that are verified and forks that go their own ways leave the bits of plain decoding on the CPU.
namespace tandem {
namespace {

constexpr std::int64_t kVersions = 16;
constexpr std::size_t kPrompt = 40;
constexpr std::size_t kWays = 64;

class CudaVersions : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_DEVICE();
    context_.emplace(cpu_and_gpu());
    cpu_ = open("cpu");
    found_ = open(GetParam());
  }

  std::unique_ptr<Session> open(const std::string& place) {
    SessionOptions options;
    options.place = place;
    options.residency = Residency::per_layer;
    options.sequences = kWays + 2;
    options.context_tokens = 128;
    options.step_versions = kVersions;
    return std::make_unique<Session>(*context_, tiny_model(), options);
  }

  SequenceId prompted(Session& session) {
    const SequenceId sequence = session.open();
    session.feed(sequence, std::span(ids_).first(kPrompt), Outputs::none);
    return sequence;
  }

  std::optional<Context> context_;
  std::unique_ptr<Session> cpu_, found_;
  const std::vector<TokenId> ids_ = heldout_ids(600);
};

TEST_P(CudaVersions, EveryNumberOfAcceptedTokens) {
  const SequenceId plain = prompted(*cpu_), prompt = prompted(*found_);
  TokenId last = ids_[kPrompt];
  const TokenId first = last;
  std::vector<TokenId> text;
  std::vector<Outcome> expected;
  for (std::int64_t i = 0; i < kVersions; ++i) {
    const std::vector<float> logits = cpu_->feed(plain, {&last, 1}, Outputs::last);
    expected.push_back({logits, all_layers(cpu_->state(), plain)});
    text.push_back(last = choose_greedily(logits));
  }
  for (std::size_t right = 0; right < text.size(); ++right) {
    const SequenceId sequence = found_->fork(prompt);
    std::vector<TokenId> draft(text.begin(), text.end() - 1);
    if (right < draft.size()) draft[right] = (draft[right] + 1) % 512;
    const Verified result = verify(*found_, {sequence, first, draft});
    EXPECT_EQ(result.accepted, static_cast<std::int64_t>(right));
    expect_same(expected[right], {result.logits, all_layers(found_->state(), sequence)},
                std::to_string(right) + " accepted");
    found_->state().close(sequence);
  }
}

TEST_P(CudaVersions, SixtyFourForksInOneBatch) {
  const SequenceId plain = prompted(*cpu_), prompt = prompted(*found_);
  std::vector<SequenceId> ways;
  for (std::size_t i = 0; i < kWays; ++i) ways.push_back(found_->fork(prompt));
  std::vector<Outcome> outcomes(kWays);
  for (std::size_t step = 0; step < 4; ++step) {
    std::vector<SequenceTokens> batch;
    for (std::size_t i = 0; i < kWays; ++i) {
      batch.push_back({ways[i], std::span(ids_).subspan(50 + 8 * i + step, 1), Outputs::all});
    }
    const std::vector<std::vector<float>> logits = found_->step(batch);
    for (std::size_t i = 0; i < kWays; ++i) {
      outcomes[i].logits.insert(outcomes[i].logits.end(), logits[i].begin(), logits[i].end());
    }
  }
  for (std::size_t i = 0; i < kWays; ++i) {
    outcomes[i].layers = all_layers(found_->state(), ways[i]);
    const SequenceId alone = cpu_->fork(plain);
    const std::vector<float> logits = cpu_->feed(alone, std::span(ids_).subspan(50 + 8 * i, 4), Outputs::all);
    expect_same({logits, all_layers(cpu_->state(), alone)}, outcomes[i], "way " + std::to_string(i));
    cpu_->state().close(alone);
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, CudaVersions, testing::Values("cuda", "cpu,cuda:gdn", "cuda,cpu:gdn"),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace tandem
