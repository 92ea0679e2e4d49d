#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/session/session.hpp"
#include "tests/graph/device_backend.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/properties/model_runs.hpp"

/// A node runs where its weights and its state are, or not at all.
namespace tandem {
namespace {

class DispatchTest : public testing::Test {
 protected:
  DispatchTest() : context_(cpu_and_device(kPlenty)), session_(context_, tiny_model(), options()) {}

  static SessionOptions options() {
    SessionOptions options;
    options.place = "cpu,cuda:4-7,cuda:head";
    options.context_tokens = 128;
    options.sequences = 2;
    return options;
  }

  Outcome go_on(SequenceId sequence) {
    Outcome outcome;
    outcome.logits = session_.feed(sequence, next_, Outputs::all);
    outcome.layers = all_layers(session_.state(), sequence);
    return outcome;
  }

  /// A step must be refused with these words and leave every layer's state as it was.
  void expect_refused(SequenceId sequence, const std::string& words) {
    const std::vector<LayerState> before = all_layers(session_.state(), sequence);
    const std::vector<VersionInfo> versions = session_.state().versions(sequence);
    const std::vector<StateUsage> usage = session_.state().usage();
    const std::uint64_t crossed = session_.executor().crossed_bytes();
    expect_error(ErrorCode::not_resident, words, [&] { session_.feed(sequence, next_, Outputs::last); });
    EXPECT_TRUE(before == all_layers(session_.state(), sequence)) << "a layer's state changed";
    EXPECT_EQ(versions, session_.state().versions(sequence));
    EXPECT_EQ(usage, session_.state().usage());
    EXPECT_EQ(crossed, session_.executor().crossed_bytes());
  }

  Context context_;
  Session session_;
  const std::vector<TokenId> ids_ = heldout_ids(60);
  const std::span<const TokenId> before_ = std::span(ids_).first(40);
  const std::span<const TokenId> next_ = std::span(ids_).subspan(40);
};

TEST_F(DispatchTest, AnUnloadedPieceIsMissedBeforeAnythingRuns) {
  const SequenceId sequence = session_.open();
  session_.feed(sequence, before_, Outputs::none);
  const SequenceId undisturbed = session_.state().fork(sequence);
  const Outcome expected = go_on(undisturbed);
  const std::uint64_t full = device_of(context_).used_bytes();
  for (int layer = 4; layer < 8; ++layer) {
    session_.unload(layer, "cuda");
    EXPECT_LT(device_of(context_).used_bytes(), full);
    EXPECT_FALSE(session_.holds(layer, "cuda:0"));
    expect_refused(sequence, fmt::format("layer {}'s {} is not loaded on cuda:0", layer,
                                         layer == 7 ? "attention" : "gdn"));
    session_.load(layer, "cuda:0");
    EXPECT_TRUE(session_.holds(layer, "cuda:0"));
    EXPECT_EQ(device_of(context_).used_bytes(), full);
  }
  session_.unload({2, Part::mlp}, "cpu");
  EXPECT_FALSE(session_.holds(2, "cpu"));
  EXPECT_TRUE(session_.holds({2, Part::gdn}, "cpu"));
  expect_refused(sequence, "layer 2's mlp is not loaded on cpu");
  session_.load(2, "cpu");
  session_.unload(Part::embedding, "cpu");
  expect_refused(sequence, "the embedding is not loaded on cpu");
  session_.load(Part::embedding, "cpu");
  expect_same(expected, go_on(sequence), "after unloading and loading");
}

TEST_F(DispatchTest, TheHeadIsNeededForLogitsOnly) {
  const SequenceId sequence = session_.open();
  session_.unload(Part::head, "cuda");
  EXPECT_NO_THROW(session_.feed(sequence, before_, Outputs::none));
  expect_refused(sequence, "the head is not loaded on cuda:0");
}

TEST_F(DispatchTest, AStateElsewhereIsMissedBeforeAnythingRuns) {
  // Layers 0 and 4 have changed their homes.
  std::vector<int> homes = session_.plan().state_home;
  std::swap(homes[0], homes[4]);
  const SequenceId sequence = session_.state().open({Residency::per_layer, homes});
  expect_refused(sequence, "layer 0: the plan runs it on cpu, the state of sequence 0.1 lives on cuda:0");
}

TEST_F(DispatchTest, PiecesAndBackendsThatAreNotThereAreRefused) {
  expect_error(ErrorCode::invalid_argument, "nothing like layer 8", [&] { session_.load(8, "cpu"); });
  expect_error(ErrorCode::invalid_argument, "nothing like layer 0's attention", [&] {
    session_.unload({0, Part::attention}, "cpu");
  });
  expect_error(ErrorCode::unsupported, "no backend 'other' here; there are: cpu, cuda:0",
               [&] { session_.load(1, "other"); });
  EXPECT_NO_THROW(session_.unload(1, "cuda")) << "it was never there";
}

TEST_F(DispatchTest, ALayerMayBeHeldInTwoPlaces) {
  const std::uint64_t before = device_of(context_).used_bytes();
  session_.load(1, "cuda:0");
  EXPECT_TRUE(session_.holds(1, "cuda:0"));
  EXPECT_TRUE(session_.holds(1, "cpu"));
  EXPECT_GT(device_of(context_).used_bytes(), before);
  session_.unload(1, "cuda:0");
  EXPECT_EQ(device_of(context_).used_bytes(), before);
}

TEST(Dispatch, TiedWeightsStayWhileSomethingNeedsThem) {
  const Context context = cpu_and_device(kPlenty);
  SessionOptions options;
  options.place = "cuda";
  options.context_tokens = 64;
  Session session(context, tiny_model(), options);
  const std::uint64_t full = device_of(context).used_bytes();
  const std::uint64_t norm = 192 * 4, embedding = 2048 * 192 * 2;
  session.unload(Part::head, "cuda");
  EXPECT_EQ(device_of(context).used_bytes(), full - norm);
  EXPECT_TRUE(session.holds(Part::embedding, "cuda"));
  session.unload(Part::embedding, "cuda");
  EXPECT_EQ(device_of(context).used_bytes(), full - norm - embedding);
  session.load(Part::head, "cuda");
  session.load(Part::embedding, "cuda");
  EXPECT_EQ(device_of(context).used_bytes(), full);
}

class LoadingTest : public testing::Test {
 protected:
  /// The bytes of a device after a session on it was refused.
  std::uint64_t left_behind(const SessionOptions& options, ErrorCode code, const std::string& words) {
    expect_error(code, words, [&] { const Session session(context_, tiny_model(), options); });
    return device_of(context_).used_bytes();
  }

  Context context_ = cpu_and_device(kPlenty);
  SessionOptions options_ = [] {
    SessionOptions options;
    options.place = "cpu,cuda:2-5";
    options.context_tokens = 64;
    return options;
  }();
};

TEST_F(LoadingTest, CanBeFollowed) {
  std::vector<std::int64_t> done;
  std::int64_t all = 0;
  options_.watch.progress = [&](std::int64_t bytes, std::int64_t total) {
    done.push_back(bytes);
    all = total;
  };
  const Session session(context_, tiny_model(), options_);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), all);
  EXPECT_EQ(all, tiny_model()->weight_bytes());
}

TEST_F(LoadingTest, CanBeInterrupted) {
  int looks = 0;
  options_.watch.interrupted = [&] { return ++looks > 60; };
  EXPECT_EQ(left_behind(options_, ErrorCode::interrupted, "bytes of weights"), 0u);
}

TEST_F(LoadingTest, IsAllOrNothing) {
  device_of(context_).fail_load_after(10);
  EXPECT_EQ(left_behind(options_, ErrorCode::device_lost, "planted"), 0u);
  device_of(context_).fail_load_after(-1);

  Session session(context_, tiny_model(), options_);
  session.unload(3, "cuda");
  const std::uint64_t before = device_of(context_).used_bytes();
  device_of(context_).fail_load_after(4);
  expect_error(ErrorCode::device_lost, "planted", [&] { session.load(3, "cuda"); });
  EXPECT_EQ(device_of(context_).used_bytes(), before);
  EXPECT_FALSE(session.holds(3, "cuda"));
  device_of(context_).fail_load_after(-1);
  int looks = 0;
  const LoadWatch impatient{{}, [&] { return ++looks == 3; }};
  expect_error(ErrorCode::interrupted, "interrupted after", [&] { session.load(3, "cuda", impatient); });
  EXPECT_EQ(device_of(context_).used_bytes(), before);
  session.load(3, "cuda");
  EXPECT_NO_THROW(session.feed(session.open(), heldout_ids(3), Outputs::last));
}

}  // namespace
}  // namespace tandem
