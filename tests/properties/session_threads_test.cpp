#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/random.hpp"
#include "graph/session/verify.hpp"
#include "tests/properties/model_runs.hpp"

/// Threads that drive different sequences of one session: nobody sees the others, and what runs on different
/// backends runs at the same time.
namespace tandem {
namespace {

constexpr std::size_t kThreadTokens = 20;

/// Lets nobody on before all have come; false when one does not come in time.
class Meeting {
 public:
  explicit Meeting(int expected) : missing_(expected) {}

  bool arrive() {
    std::unique_lock lock(mutex_);
    if (--missing_ <= 0) all_here_.notify_all();
    return all_here_.wait_for(lock, std::chrono::seconds(60), [&] { return missing_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  int missing_;
};

class SessionThreads : public testing::Test {
 protected:
  SessionThreads() : context_(two_cpus()) {
    SessionOptions options;
    options.homes = {"cpu", "other"};
    options.residency = Residency::per_layer;
    options.sequences = 12;
    options.kept_versions = 3;
    options.step_versions = 4;
    options.context_tokens = 64;
    session_ = std::make_unique<Session>(context_, tiny_model(), options);
    for (int layer = 0; layer < kTinyLayers; ++layer) session_->load(layer, "other");
    session_->load(Part::embedding, "other");
    session_->load(Part::head, "other");
  }

  SequenceId open_on(const std::string& backend) {
    const SequenceId sequence = session_->open(MissPolicy::migrate);
    session_->migrate(sequence, {}, backend);
    return sequence;
  }

  /// Tokens of the text from `first` on, one at a time.
  std::vector<TokenId> text(std::size_t first) const {
    return {ids_.begin() + std::ptrdiff_t(first), ids_.begin() + std::ptrdiff_t(first + kThreadTokens)};
  }

  std::vector<float> decode(SequenceId sequence, const std::vector<TokenId>& tokens) {
    std::vector<float> logits;
    for (const TokenId& token : tokens) {
      const std::vector<float> row = session_->feed(sequence, {&token, 1}, Outputs::last);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    return logits;
  }

  void expect_undisturbed(SequenceId sequence, std::size_t first, const std::vector<float>& logits) {
    const Outcome expected = run_tokens(context_, text(first), {});
    expect_same(expected, {logits, all_layers(session_->state(), sequence)},
                "text from " + std::to_string(first));
  }

  Context context_;
  std::unique_ptr<Session> session_;
  const std::vector<TokenId> ids_ = heldout_ids(200);
};

struct StepTimes final : StepObserver {
  void step(const ObservedStep& step) override { times.push_back(step.time); }
  void residency(const ResidencyEvent&, const TimeSpan&) override {}
  std::vector<TimeSpan> times;
};

/// Each thread waits inside of its step for the other one to be inside of its own, and an observer is told of
/// two steps that overlap.
TEST_F(SessionThreads, StepsOnDifferentBackendsRunAtTheSameTime) {
  const SequenceId a = open_on("cpu"), b = open_on("other");
  Meeting meeting(2);
  bool met[2] = {false, false};
  StepTimes observer;
  session_->observe(&observer);
  const auto step = [&](SequenceId sequence, bool& found) {
    const SequenceTokens batch[] = {{sequence, std::span(ids_).first(3), Outputs::none}};
    session_->step(batch, [&](const Node& node, const Value&, const ConstTensor&) {
      if (node.layer == 4 && node.kind == OpKind::silu_mul) found = meeting.arrive();
    });
  };
  std::thread one([&] { step(a, met[0]); }), two([&] { step(b, met[1]); });
  one.join();
  two.join();
  EXPECT_TRUE(met[0] && met[1]) << "one step waited for the other to end";
  ASSERT_EQ(observer.times.size(), 2u);
  EXPECT_LT(observer.times[1].begin_ms, observer.times[0].end_ms);
  EXPECT_LT(observer.times[0].begin_ms, observer.times[1].end_ms);
}

TEST_F(SessionThreads, OneOnEachBackend) {
  const SequenceId a = open_on("cpu"), b = open_on("other");
  std::vector<float> on_a, on_b;
  std::thread one([&] { on_a = decode(a, text(0)); }), two([&] { on_b = decode(b, text(60)); });
  one.join();
  two.join();
  expect_undisturbed(a, 0, on_a);
  expect_undisturbed(b, 60, on_b);
}

/// One goes its way with all the verbs, one migrates up and down, one forks and closes, one takes weights
/// away and brings them back.
TEST_F(SessionThreads, EverybodyDoesSomethingElse) {
  const SequenceId plain = open_on("cpu"), wandering = open_on("other"), forked = open_on("cpu");
  std::vector<float> on_plain, on_wandering, on_forked;
  std::thread one([&] { on_plain = decode(plain, text(0)); });
  std::thread two([&] {
    const std::vector<TokenId> tokens = text(60);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      session_->migrate(wandering, {static_cast<int>(t) % kTinyLayers}, t % 3 == 0 ? "cpu" : "other");
      const std::vector<float> row = decode(wandering, {tokens[t]});
      on_wandering.insert(on_wandering.end(), row.begin(), row.end());
    }
  });
  std::thread three([&] {
    for (const TokenId& token : text(120)) {
      const SequenceId fork = session_->fork(forked);
      verify(*session_, {fork, token, std::span(ids_).first(3)});
      const std::int64_t version = session_->versions(forked).back().number;
      decode(forked, {ids_[7]});
      session_->rollback(forked, version);
      session_->close(fork);
      const std::vector<float> row = decode(forked, {token});
      on_forked.insert(on_forked.end(), row.begin(), row.end());
    }
  });
  std::thread four([&] {
    for (int i = 0; i < 12; ++i) {
      session_->unload(i % kTinyLayers, "other");
      EXPECT_LE(session_->events().size(), Misses::kEvents);
      session_->load(i % kTinyLayers, "other");
    }
  });
  for (std::thread* thread : {&one, &two, &three, &four}) thread->join();
  expect_undisturbed(plain, 0, on_plain);
  expect_undisturbed(wandering, 60, on_wandering);
  expect_undisturbed(forked, 120, on_forked);
}

/// More threads than backends, all on the same.
TEST_F(SessionThreads, ManyOnOneBackend) {
  constexpr std::size_t kThreads = 4;
  std::vector<SequenceId> sequences;
  for (std::size_t i = 0; i < kThreads; ++i) sequences.push_back(open_on("other"));
  std::vector<std::vector<float>> logits(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { logits[i] = decode(sequences[i], text(20 * i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kThreads; ++i) expect_undisturbed(sequences[i], 20 * i, logits[i]);
}

}  // namespace
}  // namespace tandem
