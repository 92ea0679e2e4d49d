#include <gtest/gtest.h>

#include <optional>

#include "backends/faulty/faulty_backend.hpp"
#include "tests/cuda/device.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/properties/model_runs.hpp"

/// A GPU on which planned faults happen: the bits are those of an undisturbed run.
namespace tandem {
namespace {

constexpr std::size_t kFaultTokens = 40;

class CudaFaults : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_DEVICE(); }

  void start(std::int64_t mirror_every, const char* place) {
    session_.reset();
    faults_ = std::make_shared<Faults>();
    context_.emplace(
        context_of(make_cpu_backend({}), make_faulty_backend(make_cuda_backend({.device = 0}), faults_)));
    SessionOptions options;
    options.place = place;
    options.kept_versions = 3;
    options.context_tokens = 64;
    options.mirror_every = mirror_every;
    options.poison = true;
    options.faults = faults_;
    session_ = std::make_unique<Session>(*context_, tiny_model(), options);
  }

  std::vector<float> feed(SequenceId sequence, std::size_t token) {
    return session_->feed(sequence, std::span(ids_).subspan(token, 1), Outputs::last);
  }

  void feed_to(SequenceId sequence, std::size_t token, Outcome& outcome) {
    for (auto t = static_cast<std::size_t>(session_->state().tokens(sequence)); t < token; ++t) {
      const std::vector<float> logits = feed(sequence, t);
      outcome.logits.insert(outcome.logits.end(), logits.begin(), logits.end());
    }
  }

  void expect_undisturbed(SequenceId sequence, Outcome& outcome, const std::string& what) {
    outcome.layers = all_layers(session_->state(), sequence);
    expect_same(run_tokens(cpu_alone(), std::span(ids_).first(kFaultTokens), {}), outcome, what);
    session_->state().close(sequence);
    for (const StateUsage& usage : session_->state().usage()) EXPECT_EQ(usage.used_bytes, 0) << what;
  }

  std::shared_ptr<Faults> faults_;
  std::optional<Context> context_;
  std::unique_ptr<Session> session_;
  const std::vector<TokenId> ids_ = heldout_ids(kFaultTokens);
};

TEST_F(CudaFaults, ALostDeviceWithAMirrorGoesOnOnTheCpu) {
  for (const char* place : {"cuda", "cpu,cuda:2-5"}) {
    for (const std::size_t token : {0u, 3u, 8u, 9u, 17u, 33u}) {
      start(8, place);
      faults_->arm(fmt::format("cuda:0/lost@token:{}", token));
      const SequenceId sequence = session_->open();
      Outcome outcome;
      feed_to(sequence, kFaultTokens, outcome);
      EXPECT_TRUE(session_->lost("cuda:0"));
      EXPECT_EQ(session_->state().homes(sequence), std::vector<int>(8, 0));
      expect_undisturbed(sequence, outcome, fmt::format("{}, lost at {}", place, token));
    }
  }
}

TEST_F(CudaFaults, ALostDeviceWithoutAMirrorIsANamedError) {
  start(0, "cuda");
  faults_->arm("cuda:0/lost@token:5");
  const SequenceId sequence = session_->open();
  Outcome outcome;
  feed_to(sequence, 5, outcome);
  expect_error(ErrorCode::device_lost, "nothing stands in", [&] { feed(sequence, 5); });
  EXPECT_EQ(session_->state().tokens(sequence), 5);
  session_->state().close(sequence);
}

TEST_F(CudaFaults, FailedCallsLeaveEverythingAsItWas) {
  for (const char* fault : {"launch@token:7", "fail@upload:token:7", "fail@wait:token:7"}) {
    start(8, "cuda");
    faults_->arm(fmt::format("cuda:0/{}", fault));
    const SequenceId sequence = session_->open();
    Outcome outcome;
    feed_to(sequence, 7, outcome);
    expect_error(ErrorCode::device_lost, "injected", [&] { feed(sequence, 7); });
    EXPECT_FALSE(session_->lost("cuda:0"));
    feed_to(sequence, kFaultTokens, outcome);
    EXPECT_EQ(session_->state().homes(sequence), session_->plan().state_home);
    expect_undisturbed(sequence, outcome, fault);
  }
}

TEST_F(CudaFaults, MemoryThatIsNotThereLeavesADeviceThatCanBeUsed) {
  faults_ = std::make_shared<Faults>();
  context_.emplace(
      context_of(make_cpu_backend({}), make_faulty_backend(make_cuda_backend({.device = 0}), faults_)));
  SessionOptions options;
  options.place = "cuda";
  options.context_tokens = 64;
  for (int call : {1, 2, 5, 40}) {
    faults_->arm(fmt::format("cuda:0/alloc@{}", call));
    expect_error(ErrorCode::out_of_memory, "injected",
                 [&] { session_ = std::make_unique<Session>(*context_, tiny_model(), options); });
    EXPECT_EQ(faults_->armed(), 0u);
  }
  session_ = std::make_unique<Session>(*context_, tiny_model(), options);
  const SequenceId sequence = session_->open();
  Outcome outcome;
  feed_to(sequence, kFaultTokens, outcome);
  expect_undisturbed(sequence, outcome, "after four refusals");
}

}  // namespace
}  // namespace tandem
