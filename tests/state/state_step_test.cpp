#include "state/state_step.hpp"

#include <type_traits>

#include "tests/state/state_fixture.hpp"

namespace tandem::testing {
namespace {

static_assert(!std::is_copy_constructible_v<StateStep> && !std::is_copy_assignable_v<StateStep>);
static_assert(std::is_nothrow_move_constructible_v<StateStep> &&
              std::is_nothrow_move_assignable_v<StateStep>);
static_assert(noexcept(std::declval<StateStep&>().commit()));

class StateStepTest : public StateTest {};

TEST_F(StateStepTest, SaysWhereItIs) {
  const SequenceId id = open_split();
  advance(manager, id, kThreeTokens);
  StateStep step = manager.begin(id, 6);
  EXPECT_TRUE(step.open());
  EXPECT_EQ(step.sequence(), id);
  EXPECT_EQ(step.position(), 3);
  EXPECT_EQ(step.tokens(), 6);
  EXPECT_EQ(step.pages(2, 1).size(), 3u);
  EXPECT_EQ(step.recurrent_in(0, 0).shape, (Shape{2, 3, 5}));
  EXPECT_EQ(step.recurrent_out(0, 0).shape, (Shape{2, 3, 5}));
  EXPECT_EQ(step.conv_in(0, 0).shape, (Shape{3, 7}));
  EXPECT_EQ(step.conv_out(0, 0).shape, (Shape{3, 7}));
  EXPECT_NE(step.recurrent_in(0, 0).data, step.recurrent_out(0, 0).data);
  EXPECT_NE(step.conv_in(0, 0).data, step.conv_out(0, 0).data);
}

TEST_F(StateStepTest, NothingIsSeenBeforeCommit) {
  const SequenceId id = open_split();
  advance(manager, id, kThreeTokens);
  const auto before = export_all(manager, id);
  StateStep step = manager.begin(id, 2);
  compute(manager, step, {4, 5});
  EXPECT_EQ(export_all(manager, id), before);
  EXPECT_EQ(manager.tokens(id), 3);
  step.commit();
  EXPECT_FALSE(step.open());
  EXPECT_EQ(manager.tokens(id), 5);
  EXPECT_NE(export_all(manager, id), before);
}

TEST_F(StateStepTest, WhatWasWrittenIsWhatIsReadNext) {
  const SequenceId id = open_on(0);
  StateStep first = manager.begin(id, 3);
  const void* written = first.recurrent_out(1, 0).data;
  first.commit();
  StateStep second = manager.begin(id, 1);
  EXPECT_EQ(second.recurrent_in(1, 0).data, written);
}

TEST_F(StateStepTest, UnwrittenStateShowsAsNaN) {
  const SequenceId id = open_on(0);
  manager.begin(id, 3).commit();
  for (const LayerState& layer : export_all(manager, id)) {
    EXPECT_THAT(layer.piece("recurrent"), ::testing::Each(std::byte{0xFF}));
    EXPECT_THAT(layer.piece("keys"), ::testing::Each(std::byte{0xFF}));
  }
}

TEST_F(StateStepTest, AbortLeavesEveryByte) {
  const SequenceId id = open_split();
  advance(manager, id, kThreeTokens);
  advance(manager, id, kThreeTokens);
  const auto before = export_all(manager, id);
  const auto versions = manager.versions(id);
  const Used held = used(manager);
  {
    StateStep step = manager.begin(id, 11);
    scribble(manager, step);
    EXPECT_EQ(used(manager).slots, held.slots + 3);
  }
  EXPECT_EQ(export_all(manager, id), before);
  EXPECT_EQ(manager.versions(id), versions);
  EXPECT_EQ(used(manager), held);
}

TEST_F(StateStepTest, AnAbortedStepCanBeRepeated) {
  const SequenceId id = open_split();
  const SequenceId twin = open_split();
  for (const SequenceId s : {id, twin}) advance(manager, s, kThreeTokens);
  scribble(manager, manager.begin(id, 7));
  for (const SequenceId s : {id, twin}) advance(manager, s, kThreeTokens);
  EXPECT_EQ(export_all(manager, id), export_all(manager, twin));
  EXPECT_EQ(manager.versions(id), manager.versions(twin));
}

TEST_F(StateStepTest, AwayFromHomeIsNotResident) {
  const SequenceId id = open_split();
  StateStep step = manager.begin(id, 3);
  const auto away = [](const char* layer, const char* lives, const char* asked, auto&& action) {
    expect_error(ErrorCode::not_resident, {layer, "sequence 0.1", lives, asked}, action);
  };
  away("layer 0", "lives on cpu", "asked for on gpu", [&] { step.recurrent_in(0, 1); });
  away("layer 0", "lives on cpu", "asked for on gpu", [&] { step.recurrent_out(0, 1); });
  away("layer 1", "lives on gpu", "asked for on cpu", [&] { step.conv_in(1, 0); });
  away("layer 1", "lives on gpu", "asked for on cpu", [&] { step.conv_out(1, 0); });
  away("layer 2", "lives on gpu", "asked for on cpu", [&] { step.pages(2, 0); });
  compute(manager, step, kThreeTokens);
  step.commit();
  const SequenceId twin = open_on(0);
  advance(manager, twin, kThreeTokens);
  EXPECT_EQ(export_all(manager, id), export_all(manager, twin));
}

TEST_F(StateStepTest, WrongLayersAndBackendsAreErrors) {
  const SequenceId id = open_on(0);
  StateStep step = manager.begin(id, 1);
  const auto rejects = [](const char* word, auto&& action) {
    expect_error(ErrorCode::invalid_argument, {word}, action);
  };
  rejects("layer 5 does not exist", [&] { step.recurrent_in(5, 0); });
  rejects("layer -1 does not exist", [&] { step.conv_out(-1, 0); });
  rejects("layer 2 has state of kind kv, asked for as recurrent", [&] { step.recurrent_out(2, 0); });
  rejects("layer 0 has state of kind recurrent, asked for as kv", [&] { step.pages(0, 0); });
  rejects("backend 2 does not exist", [&] { step.recurrent_in(0, 2); });
  rejects("backend -1 does not exist", [&] { step.pages(2, -1); });
  EXPECT_TRUE(step.open());
}

TEST_F(StateStepTest, AfterItsEndAStepIsAnError) {
  const SequenceId id = open_on(0);
  StateStep step = manager.begin(id, 1);
  step.commit();
  expect_error(ErrorCode::invalid_argument, {"over"}, [&] { step.recurrent_out(0, 0); });
  StateStep first = manager.begin(id, 1);
  StateStep second = std::move(first);
  expect_error(ErrorCode::invalid_argument, {"over"}, [&] { first.pages(2, 0); });
  EXPECT_TRUE(second.open());
}

TEST_F(StateStepTest, MovingHandsOverAndAssigningAborts) {
  const SequenceId a = open_on(0);
  const SequenceId b = open_on(0);
  StateStep step = manager.begin(a, 2);
  step = manager.begin(b, 3);
  EXPECT_EQ(step.sequence(), b);
  EXPECT_EQ(manager.begin(a, 1).position(), 0);
  StateStep& self = step;
  step = std::move(self);
  EXPECT_TRUE(step.open());
  step.commit();
  EXPECT_EQ(manager.tokens(a), 0);
  EXPECT_EQ(manager.tokens(b), 3);
}

TEST_F(StateStepTest, OneStepAtATime) {
  const SequenceId id = open_on(0);
  advance(manager, id, kThreeTokens);
  StateStep step = manager.begin(id, 2);
  const Used held = used(manager);
  const auto busy = [](const char* verb, auto&& action) {
    expect_error(ErrorCode::invalid_argument, {"sequence 0.1 has an open step of 2 tokens at 3", verb},
                 action);
  };
  busy("begin another", [&] { manager.begin(id, 1); });
  busy("fork", [&] { manager.fork(id); });
  busy("roll it back", [&] { manager.rollback(id, 0); });
  busy("reset", [&] { manager.reset(id); });
  busy("close", [&] { manager.close(id); });
  EXPECT_EQ(used(manager), held);
  const SequenceId other = open_on(0);
  advance(manager, other, {9});
  compute(manager, step, {4, 5});
  step.commit();
  EXPECT_EQ(manager.tokens(id), 5);
}

TEST_F(StateStepTest, TheContextIsALimit) {
  const SequenceId id = open_on(0);
  advance(manager, id, std::vector<std::uint32_t>(18, 7));
  const Used held = used(manager);
  expect_error(ErrorCode::invalid_argument, {"sequence 0.1 has 18 tokens, 3 more", "limited to 20"},
               [&] { manager.begin(id, 3); });
  expect_error(ErrorCode::invalid_argument, {"limited to 20"}, [&] { manager.begin(id, INT64_MAX); });
  expect_error(ErrorCode::invalid_argument, {"a step of 0 tokens"}, [&] { manager.begin(id, 0); });
  expect_error(ErrorCode::invalid_argument, {"a step of -1 tokens"}, [&] { manager.begin(id, -1); });
  EXPECT_EQ(used(manager), held);
  advance(manager, id, {1, 2});
  EXPECT_EQ(manager.tokens(id), 20);
}

/// Sequences that keep three versions, and steps that write up to three.
class PartsTest : public ::testing::Test {
 protected:
  static constexpr StateBudget kBudget{
      .sequences = 2, .context_tokens = 20, .kept_versions = 3, .step_versions = 3};

  SequenceId open_split() { return manager.open({Residency::per_layer, {0, 1, 1, 0, 0}}); }

  FakeBackend cpu{"cpu"};
  FakeBackend gpu{"gpu"};
  StateManager manager{
      small_geometry(), {&cpu, &gpu}, {all_layers(small_geometry()), all_layers(small_geometry())}, kBudget};
};

TEST_F(PartsTest, TheLastTokensAreAPartEach) {
  const SequenceId id = open_split();
  const StateStep step = manager.begin(id, 7, 3);
  ASSERT_EQ(step.parts(), 3);
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected{{0, 5}, {5, 1}, {6, 1}};
  for (int part = 0; part < 3; ++part) {
    EXPECT_EQ(std::pair(step.part(part).first_row, step.part(part).rows),
              expected[static_cast<std::size_t>(part)]);
  }
  EXPECT_EQ(step.recurrent_in(0, 0, 1).data, step.recurrent_out(0, 0, 0).data);
  EXPECT_EQ(step.conv_in(0, 0, 2).data, step.conv_out(0, 0, 1).data);
  EXPECT_NE(step.recurrent_out(0, 0, 1).data, step.recurrent_out(0, 0, 2).data);
  for (int part : {-1, 3}) {
    expect_error(ErrorCode::invalid_argument, {"part", "there are 3"},
                 [&] { step.recurrent_in(0, 0, part); });
    expect_error(ErrorCode::invalid_argument, {"part", "there are 3"}, [&] { step.conv_out(0, 0, part); });
  }
}

TEST_F(PartsTest, EveryPrefixCanBeCommitted) {
  for (int count = 1; count <= 3; ++count) {
    const SequenceId id = open_split();
    advance(manager, id, kThreeTokens);
    const SequenceId twin = manager.fork(id);
    StateStep step = manager.begin(id, 5, 3);
    compute(manager, step, {1, 2, 3, 4, 5});
    step.commit(count);
    const std::vector<std::uint32_t> tokens{1, 2, 3, 4, 5};
    advance(manager, twin, {tokens.begin(), tokens.begin() + 2 + count});
    EXPECT_EQ(manager.tokens(id), 5 + count);
    EXPECT_EQ(export_all(manager, id), export_all(manager, twin)) << count;
    manager.close(id);
    manager.close(twin);
    EXPECT_EQ(used(manager), Used{});
  }
}

TEST_F(PartsTest, WhatIsDroppedLeavesNothing) {
  const SequenceId id = open_split();
  advance(manager, id, kThreeTokens);
  {
    StateStep step = manager.begin(id, 3, 3);
    compute(manager, step, {1, 2, 3});
    step.commit(1);
  }
  const std::vector<VersionInfo> expected{{0, 0}, {1, 3}, {2, 4}};
  EXPECT_EQ(manager.versions(id), expected);
  EXPECT_EQ(used(manager), (Used{2 * 3, 2 * 1})) << "two versions, and the zero slot; 4 tokens fit on a page";
  advance(manager, id, {9});
  EXPECT_EQ(manager.versions(id).back(), (VersionInfo{3, 5}));
}

TEST_F(PartsTest, EveryVersionOfAStepCanBeReturnedTo) {
  const SequenceId id = open_split();
  StateStep step = manager.begin(id, 5, 3);
  compute(manager, step, {1, 2, 3, 4, 5});
  step.commit();
  const std::vector<VersionInfo> expected{{1, 3}, {2, 4}, {3, 5}};
  EXPECT_EQ(manager.versions(id), expected);
  const SequenceId twin = open_split();
  advance(manager, twin, {1, 2, 3, 4});
  manager.rollback(id, 2);
  EXPECT_EQ(export_all(manager, id), export_all(manager, twin));
}

TEST_F(PartsTest, MoreVersionsThanTokensOrBudgetAreRefused) {
  const SequenceId id = open_split();
  for (const auto& [tokens, versions] : {std::pair(5, 0), {5, 4}, {2, 3}}) {
    expect_error(ErrorCode::invalid_argument, {"versions", "expected 1 to"},
                 [&, t = tokens, v = versions] { manager.begin(id, t, v); });
  }
  EXPECT_EQ(used(manager), Used{});
}

}  // namespace
}  // namespace tandem::testing
