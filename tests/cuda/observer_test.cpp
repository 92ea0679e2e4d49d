#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "graph/run/step_observer.hpp"
#include "tests/cuda/device.hpp"
#include "tests/properties/model_runs.hpp"

/// A step on a device that somebody watches: the same bits and the same traffic, and times that can be.
namespace tandem {
namespace {

struct Notes final : StepObserver {
  void step(const ObservedStep& step) override { steps.push_back(step); }
  void residency(const ResidencyEvent&, const TimeSpan&) override {}
  std::vector<ObservedStep> steps;
};

class CudaObserver : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_DEVICE();
    context_.emplace(cpu_and_gpu());
    SessionOptions options;
    options.place = "cpu,cuda:2-5,cuda:head";
    options.context_tokens = 128;
    session_ = std::make_unique<Session>(*context_, tiny_model(), options);
  }

  struct Run {
    std::vector<float> logits;
    std::vector<LayerState> layers;
    std::array<Traffic, 2> traffic;
  };

  /// A prompt, then tokens one by one; what the steps alone moved.
  Run run() {
    const SequenceId sequence = session_->open();
    const std::array<Traffic, 2> before = traffic();
    Run result;
    result.logits = session_->feed(sequence, std::span(ids_).first(40), Outputs::all);
    for (std::size_t t = 40; t < 60; ++t) {
      const std::vector<float> row = session_->feed(sequence, std::span(ids_).subspan(t, 1), Outputs::last);
      result.logits.insert(result.logits.end(), row.begin(), row.end());
    }
    const std::array<Traffic, 2> after = traffic();
    for (std::size_t b : {0u, 1u}) {
      result.traffic[b] = {after[b].uploaded - before[b].uploaded, after[b].downloaded - before[b].downloaded,
                           after[b].weights - before[b].weights, after[b].arguments - before[b].arguments};
    }
    result.layers = all_layers(session_->state(), sequence);
    session_->state().close(sequence);
    return result;
  }

  std::array<Traffic, 2> traffic() const {
    return {context_->backend(0).traffic(), context_->backend(1).traffic()};
  }

  std::optional<Context> context_;
  std::unique_ptr<Session> session_;
  const std::vector<TokenId> ids_ = heldout_ids(60);
};

TEST_F(CudaObserver, ChangesNeitherBitsNorTraffic) {
  const Run expected = run();
  Notes notes;
  session_->observe(&notes);
  const Run watched = run();
  session_->observe(nullptr);
  expect_same({expected.logits, expected.layers}, {watched.logits, watched.layers}, "watched");
  EXPECT_TRUE(expected.traffic == watched.traffic);
  EXPECT_EQ(notes.steps.size(), 21u);
}

TEST_F(CudaObserver, TimesAreOrderedAndWithinTheStep) {
  run();  // what a device does for the first time takes longer
  Notes notes;
  session_->observe(&notes);
  run();
  session_->observe(nullptr);
  for (const ObservedStep& step : notes.steps) {
    ASSERT_EQ(step.runs.size(), 1u);
    std::array<double, 2> last{step.time.begin_ms, step.time.begin_ms};
    for (const ObservedPart& part : step.runs[0].parts) {
      double& end = last[static_cast<std::size_t>(part.backend)];
      EXPECT_GE(part.time.begin_ms, end) << "layer " << part.layer << " on backend " << part.backend;
      EXPECT_GT(part.time.ms(), 0);
      end = part.time.end_ms;
      EXPECT_LE(end, step.time.end_ms);
    }
    EXPECT_FALSE(step.runs[0].transfers.empty());
    for (const ObservedTransfer& transfer : step.runs[0].transfers) {
      for (const TimeSpan& time : {transfer.received, transfer.sent}) {
        EXPECT_GE(time.ms(), 0);
        EXPECT_GE(time.begin_ms, step.time.begin_ms);
        EXPECT_LE(time.end_ms, step.time.end_ms);
      }
    }
  }
}

}  // namespace
}  // namespace tandem
