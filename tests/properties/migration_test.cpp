#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/random.hpp"
#include "tests/properties/model_runs.hpp"
#include "tests/share.hpp"

/// State that moves in the middle of a text cannot be seen in it: 0 elements differ.
namespace tandem {
namespace {

constexpr std::size_t kBoundaries = 33;  ///< the last after a full page

/// A model on "cpu" whose layers may all move to "other", and whose weights are on both.
class MigrationProperties : public testing::Test {
 protected:
  MigrationProperties() : context_(two_cpus()), session_(context_, tiny_model(), options()) {
    for (int layer = 0; layer < kTinyLayers; ++layer) session_.load(layer, "other");
  }

  static SessionOptions options() {
    SessionOptions options;
    options.homes = {"cpu", "other"};
    options.residency = Residency::per_layer;
    options.sequences = 3;
    options.kept_versions = 3;
    options.context_tokens = 64;
    return options;
  }

  std::vector<float> feed(SequenceId sequence, std::size_t first, std::size_t count) {
    return session_.feed(sequence, std::span(ids_).subspan(first, count), Outputs::all);
  }

  /// The undisturbed rest of a text.
  Outcome rest_of(SequenceId sequence, std::size_t first, std::size_t count) {
    const SequenceId fork = session_.state().fork(sequence);
    Outcome outcome{feed(fork, first, count), all_layers(session_.state(), fork)};
    session_.state().close(fork);
    return outcome;
  }

  /// There for four tokens, and back for another two.
  Outcome there_and_back(SequenceId sequence, std::size_t first, const std::vector<int>& layers) {
    const SequenceId fork = session_.state().fork(sequence);
    session_.migrate(fork, layers, "other");
    Outcome outcome{feed(fork, first, 4), {}};
    session_.migrate(fork, layers, "cpu");
    const std::vector<float> back = feed(fork, first + 4, 2);
    outcome.logits.insert(outcome.logits.end(), back.begin(), back.end());
    outcome.layers = all_layers(session_.state(), fork);
    session_.state().close(fork);
    return outcome;
  }

  /// Every layer alone, and all of them.
  void expect_no_trace_at(SequenceId sequence, std::size_t t) {
    const Outcome expected = rest_of(sequence, t, 6);
    for (int layer = 0; layer < kTinyLayers; ++layer) {
      expect_same(expected, there_and_back(sequence, t, {layer}),
                  "layer " + std::to_string(layer) + " at token " + std::to_string(t));
    }
    expect_same(expected, there_and_back(sequence, t, {}), "all layers at token " + std::to_string(t));
  }

  Context context_;
  Session session_;
  const std::vector<TokenId> ids_ = heldout_ids(64);
};

TEST_F(MigrationProperties, EveryLayerAtEveryTokenThereAndBack) {
  const SequenceId sequence = session_.open();
  const auto every = static_cast<std::size_t>(test::one_in());
  for (std::size_t t = 0; t < kBoundaries; ++t) {
    if (t % every == 0 || t + 1 == kBoundaries) expect_no_trace_at(sequence, t);
    feed(sequence, t, 1);
  }
}

class Wandering : public testing::TestWithParam<const char*> {};

/// Steps of 1 to 3 tokens, a layer that moves before each; whatever the plan says about the rest.
TEST_P(Wandering, DoesNotShow) {
  const CounterRandom random("wandering", 20260);
  const std::vector<TokenId> ids = heldout_ids(120);
  const Context context = two_cpus();
  SessionOptions options;
  options.place = GetParam();
  options.homes = {"cpu", "other"};
  options.residency = Residency::per_layer;
  options.context_tokens = std::ssize(ids);
  Session session(context, tiny_model(), options);
  for (int layer = 0; layer < kTinyLayers; ++layer) {
    for (const char* backend : {"cpu", "other"}) session.load(layer, backend);
  }
  const SequenceId sequence = session.open();
  Outcome outcome;
  std::uint64_t drawn = 0;
  for (std::size_t t = 0; t < ids.size();) {
    const int layer = static_cast<int>(random.bits(drawn++) % kTinyLayers);
    session.migrate(sequence, {layer}, random.bits(drawn++) % 2 == 0 ? "cpu" : "other");
    const std::size_t count = std::min<std::size_t>(ids.size() - t, 1 + random.bits(drawn++) % 3);
    const std::vector<float> rows = session.feed(sequence, std::span(ids).subspan(t, count), Outputs::all);
    outcome.logits.insert(outcome.logits.end(), rows.begin(), rows.end());
    t += count;
  }
  outcome.layers = all_layers(session.state(), sequence);
  expect_same(run_tokens(context, ids, {}), outcome, GetParam());
}
INSTANTIATE_TEST_SUITE_P(MigrationProperties, Wandering,
                         testing::Values("cpu", "other,cpu:mlp", "cpu,other:2-5,other:head",
                                         "cpu,other:embedding", "cpu,other:gdn"),
                         [](const auto& info) { return test_name(info.param); });

TEST_F(MigrationProperties, RollbackReachesBackPastAMigration) {
  const SequenceId sequence = session_.open();
  feed(sequence, 0, 10);
  const Outcome expected = rest_of(sequence, 10, 8);
  const std::int64_t version = session_.state().versions(sequence).back().number;
  feed(sequence, 40, 3);
  session_.migrate(sequence, {1, 3, 4}, "other");
  feed(sequence, 50, 3);
  session_.state().rollback(sequence, version);
  expect_same(expected, rest_of(sequence, 10, 8), "after the rollback");
}

TEST_F(MigrationProperties, ABatchMayLiveInSeveralPlaces) {
  const auto run = [&](bool migrated) {
    std::vector<SequenceId> sequences;
    for (std::size_t i = 0; i < 3; ++i) {
      sequences.push_back(session_.open());
      feed(sequences[i], 7 * i, 5);
    }
    if (migrated) {
      session_.migrate(sequences[0], {0, 3, 7}, "other");
      session_.migrate(sequences[2], {0, 3, 7}, "other");
      session_.migrate(sequences[1], {}, "other");
    }
    std::vector<SequenceTokens> batch;
    for (std::size_t i = 0; i < 3; ++i) {
      batch.push_back({sequences[i], std::span(ids_).subspan(7 * i + 5, 3 + 2 * i),
                       i == 1 ? Outputs::last : Outputs::all});
    }
    std::vector<Outcome> outcomes;
    for (std::vector<float>& logits : session_.scheduler().step(batch)) outcomes.push_back({logits, {}});
    for (std::size_t i = 0; i < 3; ++i) {
      outcomes[i].layers = all_layers(session_.state(), sequences[i]);
      session_.state().close(sequences[i]);
    }
    return outcomes;
  };
  const std::vector<Outcome> expected = run(false), found = run(true);
  for (std::size_t i = 0; i < 3; ++i) expect_same(expected[i], found[i], "sequence " + std::to_string(i));
}

TEST_F(MigrationProperties, ABatchInSeveralPlacesIsOneTransaction) {
  const SequenceId here = session_.open(), there = session_.open();
  feed(here, 0, 5);
  feed(there, 0, 5);
  session_.migrate(there, {}, "other");
  const std::vector<LayerState> before = all_layers(session_.state(), here);
  const SequenceTokens batch[] = {{here, std::span(ids_).subspan(5, 3)},
                                  {there, std::span(ids_).subspan(5, 3)}};
  int heads = 0;
  const Probe fail_at_the_second_head = [&](const Node& node, const Value& value, const ConstTensor&) {
    if (value.name == "logits" && node.part == Part::head && ++heads == 2)
      fail(ErrorCode::device_lost, "planted");
  };
  EXPECT_THROW(session_.scheduler().step(batch, fail_at_the_second_head), Error);
  EXPECT_EQ(heads, 2);
  for (SequenceId sequence : {here, there}) {
    EXPECT_EQ(session_.state().tokens(sequence), 5);
    EXPECT_TRUE(before == all_layers(session_.state(), sequence));
  }
  session_.unload({4, Part::gdn}, "other");  // where the second group runs
  EXPECT_THROW(session_.scheduler().step(batch), Error);
  EXPECT_EQ(session_.state().tokens(here), 5);
}

TEST_F(MigrationProperties, AnMlpGoesWithItsLayerIfItsWeightsDid) {
  const SequenceId sequence = session_.open();
  feed(sequence, 0, 5);
  const Outcome expected = rest_of(sequence, 5, 4);
  session_.migrate(sequence, {2, 3}, "other");
  const auto crossings_of_a_step = [&] {
    const std::uint64_t before = session_.executor().crossings();
    expect_same(expected, rest_of(sequence, 5, 4), "a step");
    return session_.executor().crossings() - before;
  };
  EXPECT_EQ(crossings_of_a_step(), 2u);
  for (int layer : {2, 3}) session_.unload({layer, Part::mlp}, "other");
  EXPECT_EQ(crossings_of_a_step(), 4u);    // to each mixer and back to each mlp
  session_.unload({2, Part::mlp}, "cpu");  // now nobody has it
  EXPECT_THROW(feed(sequence, 5, 1), Error);
}

TEST_F(MigrationProperties, EmbeddingAndHeadGoWithTheEndsOfTheModel) {
  const SequenceId sequence = session_.open();
  feed(sequence, 0, 5);
  const Outcome expected = rest_of(sequence, 5, 4);
  session_.migrate(sequence, {}, "other");
  const auto crossings_of_a_step = [&] {
    const std::uint64_t before = session_.executor().crossings();
    expect_same(expected, rest_of(sequence, 5, 4), "a step");
    return session_.executor().crossings() - before;
  };
  EXPECT_EQ(crossings_of_a_step(), 2u);
  session_.load(Part::embedding, "other");
  EXPECT_EQ(crossings_of_a_step(), 1u);
  session_.load(Part::head, "other");
  EXPECT_EQ(crossings_of_a_step(), 0u);
}

TEST_F(MigrationProperties, NothingLeaks) {
  const std::vector<StateUsage> empty = session_.state().usage();
  for (int cycle = 0; cycle < 50; ++cycle) {
    const SequenceId sequence = session_.open();
    feed(sequence, 0, 3);
    const std::int64_t version = session_.state().versions(sequence).back().number;
    feed(sequence, 3, 2);
    session_.migrate(sequence, {cycle % kTinyLayers}, "other");
    session_.state().rollback(sequence, version);
    session_.migrate(sequence, {}, cycle % 2 == 0 ? "cpu" : "other");
    session_.state().close(sequence);
    ASSERT_EQ(session_.state().usage(), empty);
  }
}

}  // namespace
}  // namespace tandem
