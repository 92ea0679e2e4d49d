#include <gtest/gtest.h>

#include "core/random.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/properties/model_runs.hpp"
#include "tests/share.hpp"

/// Weights that go away in the middle of a text: every policy but the unsafe one gives the undisturbed bits.
namespace tandem {
namespace {

class MissesTest : public testing::Test {
 protected:
  MissesTest() : context_(two_cpus()) { start(Residency::per_layer); }

  void start(Residency residency, std::int64_t sequences = 3) {
    SessionOptions options;
    options.homes = {"cpu", "other"};
    options.residency = residency;
    options.sequences = sequences;
    options.kept_versions = 3;
    options.context_tokens = 128;
    session_ = std::make_unique<Session>(context_, tiny_model(), options);
  }

  std::vector<float> feed(SequenceId sequence, std::size_t first, std::size_t count) {
    return session_->feed(sequence, std::span(ids_).subspan(first, count), Outputs::all);
  }

  /// Takes a layer's weights from where the state lives to the other backend, where those of all are if
  /// `all`.
  void lose(SequenceId sequence, int layer, bool all) {
    const bool on_cpu = session_->state().home(sequence, layer) == 0;
    for (int l = all ? 0 : layer; l < (all ? kTinyLayers : layer + 1); ++l)
      session_->load(l, on_cpu ? "other" : "cpu");
    session_->unload(layer, on_cpu ? "cpu" : "other");
  }

  /// 60 tokens, a layer lost before every third or so.
  Outcome with_misses(SequenceId sequence, bool all) {
    const CounterRandom random("misses", 4);
    std::uint64_t drawn = 0;
    Outcome outcome;
    for (std::size_t t = 0; t < 60; t += 2) {
      if (random.bits(drawn++) % 3 == 0)
        lose(sequence, static_cast<int>(random.bits(drawn++) % kTinyLayers), all);
      const std::vector<float> rows = feed(sequence, t, 2);
      outcome.logits.insert(outcome.logits.end(), rows.begin(), rows.end());
    }
    outcome.layers = all_layers(session_->state(), sequence);
    return outcome;
  }

  void expect_no_trace(MissPolicy policy, bool all) {
    const SequenceId sequence = session_->open(policy);
    expect_same(undisturbed(60), with_misses(sequence, all), std::string(name(policy)));
    EXPECT_FALSE(session_->state().unsafe(sequence));
    EXPECT_GE(session_->events().size(), 8u);
    for (const ResidencyEvent& event : session_->events()) {
      EXPECT_EQ(event.what, "miss");
      EXPECT_EQ(event.decision, name(policy));
      EXPECT_EQ(event.error, "");
      EXPECT_NE(event.from, event.to);
      EXPECT_EQ(event.layers.size(), 1u);
      EXPECT_EQ(event.bytes > 0, policy != MissPolicy::replay && event.tokens > 0) << event.tokens;
    }
    session_->state().close(sequence);
    for (const StateUsage& usage : session_->state().usage()) EXPECT_EQ(usage.used_bytes, 0);
  }

  /// 50 tokens one by one, four layers lost before each: 200 misses.
  Outcome with_two_hundred_misses(SequenceId sequence, bool all) {
    const CounterRandom random("two hundred", 7);
    Outcome outcome;
    for (std::size_t t = 0; t < many_; ++t) {
      const auto first = static_cast<int>(random.bits(2 * t) % kTinyLayers);
      const auto odd = static_cast<int>(1 + 2 * (random.bits(2 * t + 1) % (kTinyLayers / 2)));
      for (int i = 0; i < static_cast<int>(kLostAtOnce); ++i)
        lose(sequence, (first + i * odd) % kTinyLayers, all);
      const std::vector<float> rows = feed(sequence, t, 1);
      outcome.logits.insert(outcome.logits.end(), rows.begin(), rows.end());
    }
    outcome.layers = all_layers(session_->state(), sequence);
    return outcome;
  }

  std::size_t missed_layers(MissPolicy policy) const {
    std::size_t layers = 0;
    for (const ResidencyEvent& event : session_->events()) {
      EXPECT_EQ(event.decision, name(policy));
      EXPECT_EQ(event.error, "");
      layers += event.layers.size();
    }
    return layers;
  }

  Outcome undisturbed(std::size_t count) const {
    return run_tokens(context_, std::span(ids_).first(count), {});
  }

  Context context_;
  std::unique_ptr<Session> session_;
  static constexpr std::size_t kLostAtOnce = 4;
  const std::size_t many_ = test::share_of(std::size_t{50});
  const std::vector<TokenId> ids_ = heldout_ids(80);
};

TEST_F(MissesTest, MigrateLeavesNoTrace) { expect_no_trace(MissPolicy::migrate, false); }
TEST_F(MissesTest, MigrateAllLeavesNoTrace) { expect_no_trace(MissPolicy::migrate_all, true); }
TEST_F(MissesTest, ReplayLeavesNoTrace) { expect_no_trace(MissPolicy::replay, false); }

TEST_F(MissesTest, TwoHundredMissesLeaveNoTrace) {
  const Outcome expected = undisturbed(many_);
  for (MissPolicy policy : {MissPolicy::migrate, MissPolicy::migrate_all, MissPolicy::replay}) {
    start(Residency::per_layer);
    const SequenceId sequence = session_->open(policy);
    expect_same(expected, with_two_hundred_misses(sequence, policy == MissPolicy::migrate_all),
                std::string(name(policy)));
    EXPECT_EQ(missed_layers(policy), kLostAtOnce * many_);
    EXPECT_FALSE(session_->state().unsafe(sequence));
    // No token was lost, and none was taken twice.
    EXPECT_EQ(session_->state().tokens(sequence), static_cast<std::int64_t>(many_));
    const auto taken = session_->scheduler().history().of(sequence, many_);
    ASSERT_TRUE(taken);
    EXPECT_TRUE(std::equal(taken->begin(), taken->end(), ids_.begin()));
  }
}

TEST_F(MissesTest, TwoHundredUnsafeRestartsShowAndAreSaid) {
  const SequenceId sequence = session_->open(MissPolicy::unsafe_restart);
  const Outcome expected = undisturbed(many_), found = with_two_hundred_misses(sequence, false);
  EXPECT_GT(count_different(expected.logits, found.logits), 0);
  EXPECT_FALSE(expected.layers == found.layers);
  EXPECT_EQ(missed_layers(MissPolicy::unsafe_restart), kLostAtOnce * many_);
  EXPECT_TRUE(session_->state().unsafe(sequence));
  EXPECT_EQ(session_->state().tokens(sequence), static_cast<std::int64_t>(many_));
}

TEST_F(MissesTest, UniformSequencesMoveAndReplayWhole) {
  for (MissPolicy policy : {MissPolicy::migrate_all, MissPolicy::replay}) {
    start(Residency::uniform);
    expect_no_trace(policy, true);
  }
}

TEST_F(MissesTest, UniformSequencesDoNotMigrateInParts) {
  start(Residency::uniform);
  const SequenceId sequence = session_->open(MissPolicy::migrate);
  feed(sequence, 0, 5);
  lose(sequence, 3, false);
  expect_error(ErrorCode::mismatch, "uniform residency", [&] { feed(sequence, 5, 1); });
  EXPECT_EQ(session_->state().tokens(sequence), 5);
}

TEST_F(MissesTest, RefuseChangesNothing) {
  const SequenceId sequence = session_->open();
  feed(sequence, 0, 10);
  const std::vector<LayerState> before = all_layers(session_->state(), sequence);
  lose(sequence, 5, false);
  expect_error(ErrorCode::not_resident, "layer 5's gdn is not loaded on cpu", [&] { feed(sequence, 10, 1); });
  EXPECT_TRUE(before == all_layers(session_->state(), sequence));
  ASSERT_EQ(session_->events().size(), 1u);
  EXPECT_EQ(session_->events().back().decision, "refuse");
  EXPECT_EQ(session_->events().back().layers, std::vector<int>{5});
  EXPECT_EQ(session_->events().back().to, "");
  session_->set_policy(sequence, MissPolicy::migrate);
  feed(sequence, 10, 50);
  EXPECT_TRUE(undisturbed(60).layers == all_layers(session_->state(), sequence));
}

TEST_F(MissesTest, AnUnsafeRestartShowsAndIsSaid) {
  for (int layer : {2, 3}) {  // gdn, attention
    start(Residency::per_layer);
    const SequenceId sequence = session_->open(MissPolicy::unsafe_restart);
    feed(sequence, 0, 20);
    lose(sequence, layer, false);
    const std::vector<float> found = feed(sequence, 20, 5);
    const Outcome expected = undisturbed(25);
    EXPECT_FALSE(std::equal(found.begin(), found.end(), expected.logits.end() - std::ssize(found)));
    EXPECT_FALSE(expected.layers == all_layers(session_->state(), sequence));
    EXPECT_TRUE(session_->state().unsafe(sequence));
    EXPECT_TRUE(session_->state().unsafe(session_->fork(sequence)));
    EXPECT_EQ(session_->events().back().decision, "unsafe_restart");
  }
}

TEST_F(MissesTest, WithoutTheWeightsAnywhereNothingHappens) {
  const SequenceId sequence = session_->open();
  feed(sequence, 0, 10);
  const std::vector<LayerState> before = all_layers(session_->state(), sequence);
  const std::vector<StateUsage> usage = session_->state().usage();
  session_->unload(1, "cpu");
  for (MissPolicy policy :
       {MissPolicy::migrate, MissPolicy::migrate_all, MissPolicy::replay, MissPolicy::unsafe_restart}) {
    session_->set_policy(sequence, policy);
    expect_error(ErrorCode::not_resident, "has the weights of layer", [&] { feed(sequence, 10, 1); });
    EXPECT_NE(session_->events().back().error, "");
    EXPECT_TRUE(before == all_layers(session_->state(), sequence));
    EXPECT_EQ(session_->state().usage(), usage);
    EXPECT_FALSE(session_->state().unsafe(sequence));
  }
  session_->load(1, "cpu");
  EXPECT_NO_THROW(feed(sequence, 10, 1));
}

TEST_F(MissesTest, AReplayMakesTheKeptVersionsToo) {
  const SequenceId sequence = session_->open(MissPolicy::replay);
  for (std::size_t t : {0u, 10u, 13u, 14u}) feed(sequence, t, t == 0 ? 10 : t == 10 ? 3 : t == 13 ? 1 : 9);
  const std::vector<VersionInfo> versions = session_->state().versions(sequence);
  session_->state().rollback(sequence, versions[1].number);
  feed(sequence, 40, 4);  // forgotten by the next rollback
  session_->state().rollback(sequence, versions[1].number);
  lose(sequence, 4, false);
  feed(sequence, 14, 1);
  EXPECT_EQ(session_->events().back().decision, "replay");
  EXPECT_TRUE(undisturbed(15).layers == all_layers(session_->state(), sequence));
  session_->state().rollback(sequence, versions[0].number);
  EXPECT_TRUE(undisturbed(13).layers == all_layers(session_->state(), sequence));
}

TEST_F(MissesTest, AReplayNeedsRoomAndTheTokens) {
  const SequenceId one = session_->open(MissPolicy::replay);
  feed(one, 0, 10);
  const SequenceId fork = session_->fork(one);
  const SequenceId stranger = session_->state().fork(one);
  lose(one, 0, false);
  expect_error(ErrorCode::out_of_memory, "all 3 sequences", [&] { feed(fork, 10, 1); });
  session_->state().close(one);
  session_->set_policy(stranger, MissPolicy::replay);
  expect_error(ErrorCode::not_found, "cannot be replayed", [&] { feed(stranger, 10, 1); });
  EXPECT_EQ(session_->state().tokens(stranger), 10);
  feed(fork, 10, 5);
  EXPECT_TRUE(undisturbed(15).layers == all_layers(session_->state(), fork));
}

TEST_F(MissesTest, RequireResidentLooksAhead) {
  const SequenceId sequence = session_->open();
  EXPECT_NO_THROW(session_->require_resident(sequence));
  lose(sequence, 7, false);
  expect_error(ErrorCode::not_resident, "layer 7's attention", [&] { session_->require_resident(sequence); });
  session_->migrate(sequence, {7}, "other");
  EXPECT_NO_THROW(session_->require_resident(sequence));
  EXPECT_EQ(session_->events().back().what, "migration");
  EXPECT_EQ(session_->events().back().to, "other");
  session_->unload(Part::head, "cpu");
  expect_error(ErrorCode::not_resident, "the head", [&] { session_->require_resident(sequence); });
}

}  // namespace
}  // namespace tandem
