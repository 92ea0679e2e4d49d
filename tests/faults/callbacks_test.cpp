#include <gtest/gtest.h>

#include <thread>

#include "backends/cpu/cpu_backend.hpp"
#include "graph/session/session.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/micro_model.hpp"

/// Callbacks look at a session and are refused what needs a backend; sessions share a context.
namespace tandem {
namespace {

Context one_cpu() {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(make_cpu_backend({.name = "cpu", .threads = 1, .variant = ""}));
  return Context(std::move(backends));
}

SessionOptions small() {
  SessionOptions options;
  options.context_tokens = 64;
  options.sequences = 2;
  return options;
}

constexpr TokenId kIds[] = {1, 2, 3};

class CallbacksTest : public testing::Test {
 protected:
  void look_and_try() {
    EXPECT_EQ(session_.tokens(sequence_), 0);
    EXPECT_EQ(session_.versions(sequence_).size(), 1u);
    EXPECT_TRUE(session_.holds(0, "cpu"));
    expect_error(ErrorCode::invalid_argument, "inside of a call",
                 [&] { session_.feed(sequence_, kIds, Outputs::none); });
    expect_error(ErrorCode::invalid_argument, "inside of a call", [&] { session_.load(0, "cpu"); });
    expect_error(ErrorCode::invalid_argument, "inside of a call", [&] { session_.observe(nullptr); });
    ++looked_;
  }

  Context context_ = one_cpu();
  Session session_{context_, micro_model(), small()};
  SequenceId sequence_ = session_.open();
  int looked_ = 0;
};

TEST_F(CallbacksTest, AProbeLooks) {
  const SequenceTokens batch[] = {{sequence_, kIds}};
  session_.step(batch, [&](const Node&, const Value&, const ConstTensor&) {
    if (looked_ == 0) look_and_try();
  });
  EXPECT_EQ(looked_, 1);
}

TEST_F(CallbacksTest, AnObserverLooksAndWhatItThrowsAbortsTheStep) {
  struct Observer final : StepObserver {
    void step(const ObservedStep&) override { act(); }
    void residency(const ResidencyEvent&, const TimeSpan&) override {}
    std::function<void()> act;
  } observer;
  session_.observe(&observer);
  observer.act = [] { fail(ErrorCode::device_lost, "planted"); };
  expect_error(ErrorCode::device_lost, "planted", [&] { session_.feed(sequence_, kIds, Outputs::none); });
  EXPECT_EQ(session_.tokens(sequence_), 0);
  observer.act = [&] { look_and_try(); };
  session_.feed(sequence_, kIds, Outputs::none);
  EXPECT_EQ(looked_, 1);
  EXPECT_EQ(session_.tokens(sequence_), 3);
  session_.observe(nullptr);
}

TEST_F(CallbacksTest, WhatHasNoMeaningIsRefused) {
  expect_error(ErrorCode::invalid_argument, "needs a model", [&] { Session(context_, nullptr, small()); });
  SessionOptions options = small();
  options.limits = {0, 0};
  expect_error(ErrorCode::invalid_argument, "at least 1 of each",
               [&] { Session(context_, micro_model(), options); });
  session_.close(sequence_);
  expect_error(ErrorCode::not_found, "was closed",
               [&] { session_.set_policy(sequence_, MissPolicy::replay); });
  const ScopedSequence closed(session_);
  session_.close(closed.id());
}

TEST_F(CallbacksTest, SessionsThreads_OverOneContext) {
  Session other(context_, micro_model(), small());
  const SequenceId there = other.open();
  std::vector<float> a, b;
  std::thread one([&] { a = session_.feed(sequence_, kIds, Outputs::all); });
  std::thread two([&] { b = other.feed(there, kIds, Outputs::all); });
  one.join();
  two.join();
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace tandem
