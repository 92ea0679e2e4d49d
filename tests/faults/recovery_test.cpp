#include <gtest/gtest.h>

#include <filesystem>

#include "graph/session/session_snapshot.hpp"
#include "tests/faults/fault_runs.hpp"
#include "tests/graph/expect_error.hpp"

/// How a session goes on after a device was lost: from what, with which versions, and who does not.
namespace tandem {
namespace {

class RecoveryTest : public testing::Test {
 protected:
  void start(std::int64_t mirror_every, const char* place = kStatesOnOther, std::int64_t sequences = 2) {
    SessionOptions options;
    options.place = place;
    options.homes = {"cpu"};
    options.sequences = sequences;
    options.kept_versions = 3;
    options.context_tokens = 128;
    options.mirror_every = mirror_every;
    options.faults = faults_;
    session_ = std::make_unique<Session>(context_, tiny_model(), options);
  }

  /// With backends that answer again.
  void start_anew(std::int64_t mirror_every) {
    session_.reset();
    faults_ = std::make_shared<Faults>();
    context_ = two_faulty_cpus(faults_);
    start(mirror_every);
  }

  std::vector<float> feed(SequenceId sequence, std::size_t first, std::size_t count) {
    return session_->feed(sequence, std::span(ids_).subspan(first, count), Outputs::all);
  }

  void lose_other() { faults_->arm("other/lost@1"); }

  std::vector<LayerState> layers(SequenceId sequence) const {
    return all_layers(session_->state(), sequence);
  }
  Outcome undisturbed(std::size_t count) const {
    return run_tokens(two_cpus(), std::span(ids_).first(count), {});
  }
  void expect_undisturbed_after(SequenceId sequence, std::size_t count) const {
    EXPECT_TRUE(undisturbed(count).layers == layers(sequence));
  }
  ResidencyEvent last(std::string_view what) const {
    const std::deque<ResidencyEvent> events = session_->events();
    for (auto event = events.rbegin(); event != events.rend(); ++event) {
      if (event->what == what) return *event;
    }
    ADD_FAILURE() << "no event " << what;
    return {};
  }

  /// Tokens of the copy that the last rebuilding began with, told by what it restored.
  std::int64_t rebuilt_from() const {
    const StateGeometry& g = session_->state().geometry();
    const std::int64_t pages = last("rebuilt").bytes - 6 * g.slot_bytes();
    return pages / (2 * g.page_stride()) * g.kv.page_tokens;
  }

  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  Context context_ = two_faulty_cpus(faults_);
  std::unique_ptr<Session> session_;
  const std::vector<TokenId> ids_ = heldout_ids(128);
};

TEST_F(RecoveryTest, GoesOnFromTheMirrorAndSaysSo) {
  start(16);
  const SequenceId sequence = session_->open();
  for (std::size_t t = 0; t < 40; ++t) feed(sequence, t, 1);
  const ResidencyEvent mirrored = last("mirror");
  EXPECT_EQ(mirrored.tokens, 32);
  EXPECT_EQ(mirrored.error, "");
  EXPECT_GT(mirrored.bytes, 300'000);  // 6 layers of S
  EXPECT_EQ(mirrored.versions, std::vector<std::int64_t>{32});
  EXPECT_FALSE(session_->lost("other"));

  lose_other();
  const std::vector<float> logits = feed(sequence, 40, 1);
  const std::vector<float> all = undisturbed(41).logits;
  EXPECT_EQ(logits, std::vector<float>(all.end() - std::ssize(logits), all.end()));
  EXPECT_TRUE(session_->lost("other"));
  EXPECT_FALSE(session_->lost("cpu"));
  EXPECT_EQ(session_->state().homes(sequence), std::vector<int>(8, 0));
  const ResidencyEvent lost = last("lost"), rebuilt = last("rebuilt");
  EXPECT_EQ(lost.from, "other");
  EXPECT_NE(lost.error.find("injected: other/lost@1"), std::string::npos) << lost.error;
  EXPECT_EQ(rebuilt.decision, "mirror");
  EXPECT_EQ(rebuilt.layers, (std::vector<int>{2, 3, 4, 5}));
  EXPECT_EQ(rebuilt.from, "other");
  EXPECT_EQ(rebuilt.to, "cpu");
  EXPECT_EQ(rebuilt.tokens, 40);
  EXPECT_GT(rebuilt.bytes, 300'000);
  EXPECT_EQ(rebuilt_from(), 32);
  EXPECT_GT(rebuilt.milliseconds, 0);
  EXPECT_EQ(rebuilt.versions, (std::vector<std::int64_t>{38, 39, 40}));

  // Its life goes on: mirrors, rollback, forks, and the end.
  feed(sequence, 41, 20);
  EXPECT_EQ(last("mirror").tokens, 61);
  session_->state().rollback(sequence, 41);
  expect_undisturbed_after(sequence, 41);
  feed(sequence, 41, 9);
  const SequenceId fork = session_->fork(sequence);
  feed(fork, 50, 10);
  expect_undisturbed_after(fork, 60);
  session_->state().close(sequence);
  session_->state().close(fork);
  for (const StateUsage& usage : session_->state().usage()) EXPECT_EQ(usage.used_bytes, 0);
}

TEST_F(RecoveryTest, KeptVersionsComeBackWithTheirNumbers) {
  for (std::size_t at : {0u, 2u, 5u, 9u, 17u, 18u}) {
    start_anew(4);
    const SequenceId sequence = session_->open();
    for (std::size_t t = 0; t < at; ++t) feed(sequence, t, 1);
    const std::vector<VersionInfo> versions = session_->state().versions(sequence);
    lose_other();
    feed(sequence, at, 1);
    std::vector<VersionInfo> expected = versions;
    expected.push_back({static_cast<std::int64_t>(at) + 1, static_cast<std::int64_t>(at) + 1});
    if (expected.size() > 3) expected.erase(expected.begin());
    EXPECT_EQ(session_->state().versions(sequence), expected) << at;
    session_->state().rollback(sequence, expected.front().number);
    expect_undisturbed_after(sequence, static_cast<std::size_t>(expected.front().tokens));
  }
}

TEST_F(RecoveryTest, AllSequencesGoOnThoughAllPlacesAreTaken) {
  start(8, kMostOnOther, 3);
  std::vector<SequenceId> sequences;
  for (std::size_t i = 0; i < 3; ++i) {
    sequences.push_back(session_->open());
    feed(sequences.back(), 0, 20 + i);
  }
  lose_other();
  std::vector<SequenceTokens> batch;
  for (std::size_t i = 0; i < 3; ++i)
    batch.push_back({sequences[i], std::span(ids_).subspan(20 + i, 5), Outputs::last});
  EXPECT_EQ(session_->step(batch).size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) expect_undisturbed_after(sequences[i], 25 + i);
  for (SequenceId sequence : sequences) session_->state().close(sequence);
  const SequenceId fresh = session_->open(MissPolicy::refuse);
  feed(fresh, 0, 30);
  expect_undisturbed_after(fresh, 30);
}

TEST_F(RecoveryTest, WithoutAMirrorThePolicyDecides) {
  start(0);
  const SequenceId sequence = session_->open();
  feed(sequence, 0, 20);
  const std::vector<VersionInfo> versions = session_->state().versions(sequence);
  lose_other();
  for (MissPolicy policy :
       {MissPolicy::refuse, MissPolicy::migrate, MissPolicy::migrate_all, MissPolicy::unsafe_restart}) {
    session_->set_policy(sequence, policy);
    expect_error(ErrorCode::device_lost, "the state of layer 2 and 3 more was there",
                 [&] { feed(sequence, 20, 1); });
    expect_error(ErrorCode::device_lost, fmt::format("its policy is {}", name(policy)),
                 [&] { feed(sequence, 20, 1); });
    EXPECT_EQ(session_->state().versions(sequence), versions);
    EXPECT_NE(last("rebuilt").error, "");
  }
  session_->set_policy(sequence, MissPolicy::replay);
  feed(sequence, 20, 10);
  EXPECT_EQ(last("rebuilt").decision, "replay");
  expect_undisturbed_after(sequence, 30);
}

TEST_F(RecoveryTest, WhoNeverTouchedTheDeviceDoesNotNotice) {
  start(0);
  for (int layer = 2; layer <= 5; ++layer) session_->load(layer, "cpu");
  const SequenceId there = session_->open(), here = session_->open();
  feed(there, 0, 10);
  feed(here, 0, 10);
  session_->migrate(here, {}, "cpu");
  lose_other();
  expect_error(ErrorCode::device_lost, "cannot go on", [&] { feed(there, 10, 1); });
  feed(here, 10, 20);
  expect_undisturbed_after(here, 30);
  session_->state().close(there);
  session_->state().close(here);
  for (const StateUsage& usage : session_->state().usage()) EXPECT_EQ(usage.used_bytes, 0);
}

TEST_F(RecoveryTest, StateThatIsElsewhereNeedsWeightsOnly) {
  start(0, "cpu,other:embedding,other:head,other:0-3:mlp");
  const SequenceId sequence = session_->open();
  feed(sequence, 0, 20);
  lose_other();
  expect_error(ErrorCode::device_lost, "parts of it ran there", [&] { feed(sequence, 20, 1); });
  session_->set_policy(sequence, MissPolicy::migrate);
  feed(sequence, 20, 10);
  EXPECT_EQ(last("rebuilt").decision, "versions");
  EXPECT_EQ(last("rebuilt").bytes, 0);
  expect_undisturbed_after(sequence, 30);
}

TEST_F(RecoveryTest, ALossDuringTheRebuildingOrOfTheLastBackendIsAnError) {
  start(4);
  const SequenceId sequence = session_->open();
  feed(sequence, 0, 20);
  const std::vector<VersionInfo> versions = session_->state().versions(sequence);
  faults_->arm("other/lost@1,cpu/alloc@1,cpu/fail@upload:30");
  expect_error(ErrorCode::out_of_memory, "load a weight failed", [&] { feed(sequence, 20, 1); });
  EXPECT_EQ(session_->state().versions(sequence), versions);
  feed(sequence, 20, 5);
  expect_undisturbed_after(sequence, 25);
  faults_->arm("cpu/lost@3");
  expect_error(ErrorCode::device_lost, "nothing stands in", [&] { feed(sequence, 25, 1); });
  expect_error(ErrorCode::device_lost, "nothing stands in", [&] { session_->open(); });
  session_->state().close(sequence);
  for (const StateUsage& usage : session_->state().usage()) EXPECT_EQ(usage.used_bytes, 0);
}

TEST_F(RecoveryTest, AMirrorOfARolledBackPastIsNotUsed) {
  start(8);
  const SequenceId sequence = session_->open();
  for (std::size_t t = 0; t < 16; ++t) feed(sequence, t, 1);  // mirrored at 8 and 16
  session_->state().rollback(sequence, 14);
  lose_other();
  feed(sequence, 14, 6);
  EXPECT_EQ(last("rebuilt").decision, "mirror");
  expect_undisturbed_after(sequence, 20);
  // Other tokens than the mirror's, and a second mirror of them.
  EXPECT_EQ(last("mirror").tokens, 20);
}

TEST_F(RecoveryTest, FailedMirrorsAreNotedAndStepsGoOn) {
  start(4);
  const SequenceId sequence = session_->open();
  faults_->arm("other/fail@any:1");
  expect_error(ErrorCode::device_lost, "injected", [&] { feed(sequence, 0, 3); });
  EXPECT_FALSE(session_->lost("other"));  // only a call had failed
  feed(sequence, 0, 3);
  // The first receive of a step is a crossing; this one is in the mirror after it.
  const std::int64_t before = faults_->calls("other", FaultCall::receive);
  feed(sequence, 3, 0);
  const SequenceId probe = session_->open();
  feed(probe, 0, 1);
  const std::int64_t crossings = faults_->calls("other", FaultCall::receive) - before;
  faults_->arm(fmt::format("other/fail@receive:{}", crossings + 2));
  feed(sequence, 3, 1);
  EXPECT_NE(last("mirror").error, "");
  EXPECT_EQ(session_->state().tokens(sequence), 4);
  feed(sequence, 4, 1);
  EXPECT_EQ(last("mirror").error, "");
  EXPECT_EQ(last("mirror").tokens, 5);
}

TEST_F(RecoveryTest, ASequenceFromAFileIsReplayedOrMirroredAtOnce) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("tandem-recovery-{}.tds", ::getpid());
  start(0);
  const SequenceId saved = session_->open();
  feed(saved, 0, 40);
  save_sequence(path, *session_, saved, std::span(ids_).first(41));
  for (std::int64_t mirror_every : {0, 100}) {
    start_anew(mirror_every);
    const SequenceId loaded = load_sequence(*session_, Snapshot::open(path));
    session_->set_policy(loaded, MissPolicy::replay);
    feed(loaded, 40, 1);
    lose_other();
    feed(loaded, 41, 9);
    EXPECT_EQ(last("rebuilt").decision, mirror_every > 0 ? "mirror" : "replay");
    expect_undisturbed_after(loaded, 50);
  }
  std::filesystem::remove(path);
}

TEST_F(RecoveryTest, TheMirrorIsCountedBeforeAnythingIsTaken) {
  const auto planned = [&](std::int64_t every, std::int64_t sequences) {
    SessionOptions options;
    options.place = "other";
    options.sequences = sequences;
    options.context_tokens = 100;
    options.mirror_every = every;
    const auto& model = *tiny_model();
    return plan_session(context_, model.config(), model.graph(), weight_sizes(model), options);
  };
  EXPECT_EQ(planned(0, 2).backends.size(), 1u);
  const SessionPlan two = planned(16, 2);
  ASSERT_EQ(two.plan.backend_names, (std::vector<std::string>{"cpu", "other"}));
  const StateGeometry& g = two.geometry;
  // Two copies of six slots and two pages, and four pages of two layers.
  const std::int64_t copy = 2 * (6 * g.slot_bytes() + 2 * g.page_stride()) + 2 * 4 * g.page_stride();
  EXPECT_EQ(two.footprints[0].mirror, 2 * copy);
  EXPECT_EQ(two.footprints[1].mirror, 0);
  // Room on the host for all layers of both, and of the one that is rebuilt.
  EXPECT_EQ(two.footprints[0].state, (1 + 6 * 3 * 2) * g.slot_bytes() + 2 * 3 * 4 * g.page_stride());
  expect_error(ErrorCode::out_of_memory, ", mirror ", [&] { require_fit(planned(16, 1'000'000)); });
  expect_error(ErrorCode::invalid_argument, "mirror_every is -1", [&] { planned(-1, 1); });
}

}  // namespace
}  // namespace tandem
