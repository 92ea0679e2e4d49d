#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/properties/model_runs.hpp"

/// With free state that reads as NaN the bits are the same, and a read of free state shows.
namespace tandem {
namespace {

SessionOptions options_of(bool poison) {
  SessionOptions options;
  options.place = "cpu,other:2-5";
  options.homes = {"cpu", "other"};
  options.residency = Residency::per_layer;
  options.sequences = 4;
  options.kept_versions = 3;
  options.context_tokens = 128;
  options.poison = poison;
  return options;
}

/// Forks, rollbacks, partly filled pages that are copied, migration, a reset and a failed step.
Outcome lively_run(const Context& context, bool poison) {
  Session session(context, tiny_model(), options_of(poison));
  const std::vector<TokenId> ids = heldout_ids(128);
  Outcome outcome;
  const auto feed = [&](SequenceId sequence, std::size_t first, std::size_t count) {
    const std::vector<float> logits =
        session.feed(sequence, std::span(ids).subspan(first, count), Outputs::all);
    outcome.logits.insert(outcome.logits.end(), logits.begin(), logits.end());
  };
  StateManager& state = session.state();
  const SequenceId first = session.open();
  feed(first, 0, 37);
  const SequenceId fork = session.fork(first);
  feed(fork, 50, 5);
  feed(first, 37, 1);
  state.rollback(fork, state.versions(fork)[0].number);
  feed(fork, 60, 40);
  for (int layer = 0; layer < 8; ++layer) session.load(layer, layer < 4 ? "other" : "cpu");
  session.migrate(fork, {0, 3}, "other");
  session.migrate(first, {4, 5}, "cpu");
  feed(fork, 100, 3);
  feed(first, 38, 30);
  const SequenceId third = session.open();
  feed(third, 7, 33);
  state.close(first);
  feed(third, 40, 33);
  state.reset(third);
  feed(third, 3, 70);
  { const StateStep aborted = state.begin(third, 20); }
  feed(third, 80, 1);
  outcome.layers = all_layers(state, fork);
  for (LayerState& layer : all_layers(state, third)) outcome.layers.push_back(std::move(layer));
  return outcome;
}

TEST(PoisonRuns, GiveTheSameBits) {
  const Context context = two_cpus();
  const Outcome poisoned = lively_run(context, true);
  expect_same(lively_run(context, false), poisoned, "with poison");
  EXPECT_TRUE(
      std::none_of(poisoned.logits.begin(), poisoned.logits.end(), [](float x) { return std::isnan(x); }));
}

TEST(PoisonRuns, ASlotThatIsUsedAfterItWasFreedShows) {
  const Context context = two_cpus();
  const std::vector<TokenId> ids = heldout_ids(30);
  for (const int layer : {1, 3}) {  // recurrent, kv
    for (const bool poison : {false, true}) {
      SessionOptions options = options_of(poison);
      options.place = "cpu";
      Session session(context, tiny_model(), options);
      StateManager& state = session.state();
      const SequenceId victim = session.open(), other = session.open();
      session.feed(victim, std::span(ids).first(20), Outputs::none);
      session.feed(other, std::span(ids).first(20), Outputs::none);
      const LayerView freed = state.view(victim, layer), used = state.view(other, layer);
      const void* page = layer == 3 ? freed.pages[0] : nullptr;
      state.close(victim);
      // What a stale index would do: the layer reads a block that its sequence has given back.
      Backend& cpu = *used.backend;
      if (layer == 3) {
        cpu.copy(used.pages[0], page, static_cast<std::size_t>(state.geometry().page_bytes()));
      } else {
        cpu.copy(const_cast<void*>(used.piece("recurrent").data), freed.piece("recurrent").data,
                 static_cast<std::size_t>(freed.piece("recurrent").bytes()));
      }
      const std::vector<float> logits = session.feed(other, std::span(ids).subspan(20, 1), Outputs::last);
      const bool shows = std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); });
      EXPECT_EQ(shows, poison) << "layer " << layer;  // without it the old bits are there, and nobody knows
    }
  }
}

}  // namespace
}  // namespace tandem
