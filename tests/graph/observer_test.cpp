#include <gtest/gtest.h>

#include <map>

#include "graph/session/session.hpp"
#include "state/layer_state.hpp"
#include "tests/graph/device_backend.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/graph/op_log.hpp"
#include "tests/properties/model_runs.hpp"

/// What a session tells of its steps is true, and telling it changes nothing.
namespace tandem {
namespace {

struct Notes final : StepObserver {
  void step(const ObservedStep& step) override { steps.push_back(step); }
  void residency(const ResidencyEvent& event, const TimeSpan& time) override {
    events.emplace_back(event, time);
  }
  bool wants_checksums() const override { return checksums; }

  std::vector<ObservedStep> steps;
  std::vector<std::pair<ResidencyEvent, TimeSpan>> events;
  bool checksums = false;
};

class ObserverTest : public testing::Test {
 protected:
  static SessionOptions options() {
    SessionOptions options;
    options.place = "cpu,cuda:4-7,cuda:head,cpu:6:mlp";
    options.homes = {"cpu", "cuda:0"};
    options.residency = Residency::per_layer;
    options.context_tokens = 128;
    options.sequences = 3;
    options.kept_versions = 4;
    options.limits = {16, 16};
    return options;
  }

  void watch() {
    log_.clear();
    session_.observe(&notes_);
  }

  std::vector<float> feed(SequenceId sequence, std::size_t first, std::size_t count,
                          Outputs outputs = Outputs::all) {
    return session_.feed(sequence, std::span(ids_).subspan(first, count), outputs);
  }

  /// Sequences of several lengths in one step.
  std::vector<std::vector<float>> batch(const std::vector<SequenceId>& sequences, std::size_t first) {
    std::vector<SequenceTokens> step;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      step.push_back({sequences[i], std::span(ids_).subspan(first, i + 1),
                      i == 0   ? Outputs::none
                      : i == 1 ? Outputs::last
                               : Outputs::all});
    }
    return session_.step(step);
  }

  OpLog log_;
  Context context_ = logged_cpu_and_device(log_);
  Session session_{context_, tiny_model(), options()};
  Notes notes_;
  const std::vector<TokenId> ids_ = heldout_ids(100);
};

TEST_F(ObserverTest, NothingChangesWhenSomebodyWatches) {
  const auto run = [&] {
    const SequenceId one = session_.open(MissPolicy::migrate), two = session_.open(), three = session_.open();
    log_.clear();
    std::vector<std::vector<float>> logits{feed(one, 0, 20)};
    for (std::vector<float>& rows : batch({one, two, three}, 20)) logits.push_back(std::move(rows));
    session_.load(2, "cuda:0");
    session_.unload({2, Part::gdn}, "cpu");
    logits.push_back(feed(one, 21, 5));
    session_.load(2, "cpu");
    session_.unload(2, "cuda:0");
    std::vector<LayerState> layers = all_layers(session_.state(), one);
    for (SequenceId sequence : {one, two, three}) session_.state().close(sequence);
    return std::tuple(logits, layers, log_.lines());
  };
  const auto expected = run();
  session_.observe(&notes_);
  const auto watched = run();
  session_.observe(nullptr);
  const std::size_t told = notes_.steps.size();
  const auto unwatched = run();
  EXPECT_EQ(std::get<2>(expected), std::get<2>(watched)) << "another dispatch";
  EXPECT_TRUE(expected == watched);
  EXPECT_TRUE(expected == unwatched);
  EXPECT_FALSE(std::get<2>(expected).empty());
  EXPECT_GT(told, 0u);
  EXPECT_EQ(notes_.steps.size(), told) << "told of steps that nobody watched";
}

TEST_F(ObserverTest, EveryPartRunsOnceWhereThePlanHasIt) {
  watch();
  feed(session_.open(), 0, 3);
  ASSERT_EQ(notes_.steps.size(), 1u);
  ASSERT_EQ(notes_.steps[0].runs.size(), 1u);
  const std::vector<ObservedPart>& parts = notes_.steps[0].runs[0].parts;
  ASSERT_EQ(parts.size(), session_.plan().lines.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const PlanLine& line = session_.plan().lines[i];
    EXPECT_EQ(std::tuple(parts[i].layer, parts[i].part, parts[i].backend),
              std::tuple(line.layer, line.part, line.backend));
  }
  feed(session_.state().open({Residency::per_layer, session_.plan().state_home}), 0, 3, Outputs::none);
  EXPECT_EQ(notes_.steps[1].runs[0].parts.size(), parts.size() - 1) << "the head did not run";
}

TEST_F(ObserverTest, VersionsTokensAndHomesFollowFromOneAnother) {
  watch();
  const SequenceId one = session_.open(), two = session_.open();
  feed(one, 0, 40);
  session_.load(3, "cuda:0");
  session_.migrate(one, {3}, "cuda:0");
  batch({one, two}, 40);
  session_.state().rollback(one, session_.state().versions(one)[1].number);
  feed(one, 41, 1);
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> last;  // version and tokens, by sequence
  std::int64_t number = 0;
  for (const ObservedStep& step : notes_.steps) {
    EXPECT_EQ(step.number, number++);
    for (const ObservedSequence& s : step.sequences) {
      auto& [version, tokens] = last[s.sequence.index];
      const bool rolled_back = step.number + 1 == std::ssize(notes_.steps);
      if (rolled_back) std::tie(version, tokens) = std::pair(2, 32);
      EXPECT_EQ(std::pair(s.version_read, s.position), std::pair(version, tokens));
      EXPECT_GT(s.version_written, s.version_read);
      version = s.version_written;
      tokens = s.position + s.tokens;
    }
  }
  ASSERT_EQ(notes_.steps.size(), 5u);
  const ObservedSequence& moved = notes_.steps[3].sequences[0];
  EXPECT_EQ(moved.homes, session_.state().homes(one));
  EXPECT_NE(moved.homes, notes_.steps[0].sequences[0].homes);
  EXPECT_EQ(moved.outputs, 0);
  EXPECT_EQ(notes_.steps[3].sequences[1].outputs, 1);
  EXPECT_EQ(notes_.steps[3].runs.size(), 2u) << "their states live in different places";
  ASSERT_EQ(notes_.events.size(), 1u);
  EXPECT_EQ(notes_.events[0].first.what, "migration");
}

TEST_F(ObserverTest, BytesAddUpToWhatCrossed) {
  const std::uint64_t before = session_.executor().crossed_bytes();
  watch();
  const SequenceId one = session_.open(), two = session_.open(), three = session_.open();
  feed(one, 0, 20);
  batch({one, two, three}, 20);
  std::int64_t whole = 0, shares = 0;
  std::uint64_t crossings = 0;
  for (const ObservedStep& step : notes_.steps) {
    for (const ObservedRun& run : step.runs) {
      for (const ObservedTransfer& transfer : run.transfers) {
        ++crossings;
        whole += transfer.bytes;
        for (std::size_t s : run.sequences) shares += step.sequences[s].bytes_of(transfer);
      }
    }
  }
  EXPECT_GT(whole, 0);
  EXPECT_EQ(whole, static_cast<std::int64_t>(session_.executor().crossed_bytes() - before));
  EXPECT_EQ(shares, whole);
  EXPECT_EQ(crossings, session_.executor().crossings());
}

/// One after the other, none longer than what it is a part of.
void expect_in_order(const std::vector<TimeSpan>& spans, const TimeSpan& within) {
  double last = within.begin_ms;
  for (const TimeSpan& span : spans) {
    EXPECT_GE(span.begin_ms, last);
    EXPECT_GE(span.ms(), 0);
    last = span.end_ms;
  }
  EXPECT_LE(last, within.end_ms);
}

TEST_F(ObserverTest, TimesAreOrdered) {
  watch();
  const SequenceId one = session_.open(), two = session_.open();
  feed(one, 0, 40);
  batch({one, two}, 40);
  double last = 0;
  for (const ObservedStep& step : notes_.steps) {
    EXPECT_GE(step.time.begin_ms, last);
    last = step.time.end_ms;
    for (const ObservedRun& run : step.runs) {
      for (int backend : {0, 1}) {
        std::vector<TimeSpan> parts, waits, transfers;
        for (const ObservedPart& part : run.parts) {
          if (part.backend == backend) parts.push_back(part.time);
          EXPECT_GT(part.time.ms(), 0);
        }
        for (const ObservedWait& wait : run.waits) {
          if (wait.backend == backend) waits.push_back(wait.time);
        }
        for (const ObservedTransfer& transfer : run.transfers)
          transfers.push_back(transfer.from == backend ? transfer.received : transfer.sent);
        expect_in_order(parts, step.time);
        expect_in_order(waits, step.time);
        expect_in_order(transfers, step.time);
        EXPECT_FALSE(parts.empty() || waits.empty() || transfers.empty());
      }
    }
  }
}

TEST_F(ObserverTest, ChecksumsAreThoseOfTheStatesWritten) {
  notes_.checksums = true;
  watch();
  const SequenceId one = session_.open(), two = session_.open();
  batch({one, two}, 0);
  feed(one, 1, 2);
  for (std::size_t s : {0u, 1u}) {
    const ObservedSequence& told = s == 0 ? notes_.steps.back().sequences[0] : notes_.steps[0].sequences[1];
    const std::vector<LayerState> layers = all_layers(session_.state(), s == 0 ? one : two);
    ASSERT_EQ(told.checksums.size(), layers.size());
    for (std::size_t layer = 0; layer < layers.size(); ++layer)
      EXPECT_EQ(told.checksums[layer], checksum(layers[layer]));
  }
}

TEST_F(ObserverTest, AStepThatFailsIsNotTold) {
  watch();
  const SequenceId one = session_.open();
  feed(one, 0, 3);
  log_.fail_after(20);
  expect_error(ErrorCode::device_lost, "planted", [&] { feed(one, 3, 1); });
  EXPECT_EQ(notes_.steps.size(), 1u);
  feed(one, 3, 1);
  ASSERT_EQ(notes_.steps.size(), 2u);
  EXPECT_EQ(notes_.steps[1].number, 1);
  EXPECT_EQ(notes_.steps[1].runs.size(), 1u);
  EXPECT_EQ(notes_.steps[1].runs[0].parts.size(), session_.plan().lines.size());
  EXPECT_EQ(notes_.steps[1].sequences[0].position, 3);
}

TEST_F(ObserverTest, MissesAreTold) {
  watch();
  const SequenceId one = session_.open(MissPolicy::replay);
  feed(one, 0, 20);
  session_.load(1, "cuda:0");
  session_.unload({1, Part::gdn}, "cpu");
  const std::size_t before = notes_.steps.size();
  feed(one, 20, 1);
  ASSERT_EQ(notes_.events.size(), 1u);
  const auto& [event, time] = notes_.events[0];
  EXPECT_EQ(event.decision, "replay");
  EXPECT_EQ(event.layers, std::vector<int>{1});
  EXPECT_DOUBLE_EQ(time.ms(), event.milliseconds);
  // The replay's own steps, of another sequence, lie within it.
  ASSERT_GT(notes_.steps.size(), before + 1);
  for (std::size_t i = before; i + 1 < notes_.steps.size(); ++i) {
    EXPECT_NE(notes_.steps[i].sequences[0].sequence, one);
    EXPECT_GE(notes_.steps[i].time.begin_ms, time.begin_ms);
    EXPECT_LE(notes_.steps[i].time.end_ms, time.end_ms);
  }
  EXPECT_EQ(notes_.steps.back().sequences[0].sequence, one);
  session_.set_policy(one, MissPolicy::refuse);
  session_.unload({1, Part::gdn}, "cuda:0");
  expect_error(ErrorCode::not_resident, "layer 1", [&] { feed(one, 21, 1); });
  EXPECT_EQ(notes_.events.back().first.decision, "refuse");
}

}  // namespace
}  // namespace tandem
