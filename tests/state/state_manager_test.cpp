#include "state/state_manager.hpp"

#include "tests/state/state_fixture.hpp"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;

class StateManagerTest : public StateTest {};

TEST_F(StateManagerTest, FreshSequenceIsZeroAndTakesNothing) {
  const SequenceId id = open_split();
  EXPECT_THAT(manager.versions(id), ElementsAre(VersionInfo{0, 0}));
  EXPECT_EQ(manager.tokens(id), 0);
  EXPECT_EQ(manager.residency(id), Residency::per_layer);
  EXPECT_EQ(used(manager), Used{});
  for (const LayerState& layer : export_all(manager, id)) {
    EXPECT_THAT(layer.piece("recurrent"), ::testing::Each(std::byte{0}));
    EXPECT_THAT(layer.piece("conv"), ::testing::Each(std::byte{0}));
    EXPECT_TRUE(layer.piece("keys").empty() && layer.piece("values").empty());
    EXPECT_EQ(layer.piece("recurrent").size(), layer.kind == LayerKind::recurrent ? 120u : 0u);
  }
}

TEST_F(StateManagerTest, HomesAreWhereTheStateIs) {
  const SequenceId id = open_split();
  EXPECT_EQ(manager.home(id, 0), 0);
  EXPECT_EQ(manager.home(id, 2), 1);
  EXPECT_EQ(manager.view(id, 0).backend, &cpu);
  EXPECT_EQ(manager.view(id, 2).backend, &gpu);
  advance(manager, id, kThreeTokens);
  const std::vector<StateUsage> usage = manager.usage();
  EXPECT_EQ(usage[0].slots_used, 2);
  EXPECT_EQ(usage[0].pages_used, 1);
  EXPECT_EQ(usage[1].slots_used, 1);
  EXPECT_EQ(usage[1].pages_used, 1);
}

TEST_F(StateManagerTest, PlacementDoesNotChangeContents) {
  const SequenceId a = open_on(0);
  const SequenceId b = open_on(1);
  const SequenceId c = open_split();
  for (const SequenceId id : {a, b, c}) {
    advance(manager, id, kThreeTokens);
    advance(manager, id, kThreeTokens);
  }
  EXPECT_EQ(export_all(manager, a), export_all(manager, b));
  EXPECT_EQ(export_all(manager, a), export_all(manager, c));
}

TEST_F(StateManagerTest, KeepsTheNewestVersions) {
  const SequenceId id = open_on(0);
  for (int i = 0; i < 4; ++i) advance(manager, id, kThreeTokens);
  EXPECT_THAT(manager.versions(id), ElementsAre(VersionInfo{2, 6}, VersionInfo{3, 9}, VersionInfo{4, 12}));
  EXPECT_EQ(manager.tokens(id), 12);
  EXPECT_EQ(used(manager), (Used{.slots = 3 * 3, .pages = 2 * 3}));
}

TEST_F(StateManagerTest, OneKeptVersionAlternatesBetweenTwoSlots) {
  FakeBackend small("small");
  StateManager one(small_geometry(), {&small}, {all_layers(small_geometry())}, {.context_tokens = 20});
  const SequenceId id = one.open({Residency::uniform, std::vector<int>(5, 0)});
  for (int i = 0; i < 6; ++i) advance(one, id, kThreeTokens);
  EXPECT_THAT(one.versions(id), ElementsAre(VersionInfo{6, 18}));
  EXPECT_EQ(one.usage()[0].slots_total, 6);
  EXPECT_EQ(one.usage()[0].slots_used, 3);
}

TEST_F(StateManagerTest, RollbackReturnsToTheSameBytes) {
  const SequenceId id = open_split();
  advance(manager, id, kThreeTokens);
  const auto before = export_all(manager, id);
  const Used held = used(manager);
  advance(manager, id, {21, 22});
  const auto middle = export_all(manager, id);
  advance(manager, id, kThreeTokens);
  manager.rollback(id, 1);
  EXPECT_EQ(export_all(manager, id), before);
  EXPECT_EQ(used(manager), held);
  EXPECT_EQ(cpu.copies() + gpu.copies(), 0);
  advance(manager, id, {21, 22});
  EXPECT_EQ(export_all(manager, id), middle);
  EXPECT_THAT(manager.versions(id), ElementsAre(VersionInfo{1, 3}, VersionInfo{4, 5}));
}

TEST_F(StateManagerTest, RollbackToTheNewestChangesNothing) {
  const SequenceId id = open_split();
  advance(manager, id, kThreeTokens);
  const auto before = export_all(manager, id);
  manager.rollback(id, 1);
  EXPECT_EQ(export_all(manager, id), before);
  EXPECT_THAT(manager.versions(id), ElementsAre(VersionInfo{0, 0}, VersionInfo{1, 3}));
}

TEST_F(StateManagerTest, RollbackToTheZeroVersion) {
  const SequenceId id = open_split();
  const auto zero = export_all(manager, id);
  advance(manager, id, kThreeTokens);
  manager.rollback(id, 0);
  EXPECT_EQ(export_all(manager, id), zero);
  EXPECT_EQ(used(manager), Used{});
}

TEST_F(StateManagerTest, RollbackToAnUnkeptVersionListsTheKept) {
  const SequenceId id = open_on(0);
  for (int i = 0; i < 4; ++i) advance(manager, id, kThreeTokens);
  const auto before = export_all(manager, id);
  for (const std::int64_t version : {-1, 1, 5}) {
    expect_error(ErrorCode::not_found,
                 {"sequence 0.1 is not kept", "2 (6 tokens), 3 (9 tokens), 4 (12 tokens)"},
                 [&] { manager.rollback(id, version); });
  }
  expect_error(ErrorCode::not_found, {"version 1"}, [&] { manager.view(id, 0, 1); });
  EXPECT_EQ(export_all(manager, id), before);
  EXPECT_EQ(manager.versions(id).size(), 3u);
}

TEST_F(StateManagerTest, ResetIsAsFreshButForTheNumber) {
  const SequenceId id = open_split();
  const auto zero = export_all(manager, id);
  advance(manager, id, kThreeTokens);
  const auto three = export_all(manager, id);
  advance(manager, id, kThreeTokens);
  manager.reset(id);
  EXPECT_THAT(manager.versions(id), ElementsAre(VersionInfo{3, 0}));
  EXPECT_EQ(export_all(manager, id), zero);
  EXPECT_EQ(used(manager), Used{});
  advance(manager, id, kThreeTokens);
  EXPECT_EQ(export_all(manager, id), three);
  EXPECT_THAT(manager.versions(id), ElementsAre(VersionInfo{3, 0}, VersionInfo{4, 3}));
}

TEST_F(StateManagerTest, StaleHandlesNeverReachTheNextSequence) {
  const SequenceId stale = open_on(0);
  advance(manager, stale, kThreeTokens);
  manager.close(stale);
  const SequenceId id = open_on(1);
  ASSERT_EQ(id.index, stale.index);
  advance(manager, id, {1});
  const auto before = export_all(manager, id);
  const auto stale_error = [](auto&& action) {
    expect_error(ErrorCode::not_found, {"sequence 0.1 was closed"}, action);
  };
  stale_error([&] { manager.begin(stale, 1); });
  stale_error([&] { manager.fork(stale); });
  stale_error([&] { manager.rollback(stale, 0); });
  stale_error([&] { manager.reset(stale); });
  stale_error([&] { manager.close(stale); });
  stale_error([&] { manager.versions(stale); });
  stale_error([&] { manager.tokens(stale); });
  stale_error([&] { manager.residency(stale); });
  stale_error([&] { manager.home(stale, 0); });
  stale_error([&] { manager.view(stale, 0); });
  EXPECT_EQ(export_all(manager, id), before);
  EXPECT_EQ(to_string(id), "0.2");
}

TEST_F(StateManagerTest, HandlesOfNobodyAreNotFound) {
  open_on(0);
  for (const SequenceId id :
       {SequenceId{}, SequenceId{0, 2}, SequenceId{-1, 1}, SequenceId{1, 1}, SequenceId{0, -1}}) {
    expect_error(ErrorCode::not_found, {"never opened"}, [&] { manager.tokens(id); });
  }
}

TEST_F(StateManagerTest, ClosedTwiceIsClosedOnce) {
  const SequenceId id = open_on(0);
  manager.close(id);
  expect_error(ErrorCode::not_found, {"sequence 0.1 was closed"}, [&] { manager.close(id); });
}

TEST_F(StateManagerTest, UniformWantsOneHome) {
  expect_error(ErrorCode::mismatch, {"uniform", "layer 0 lives on gpu", "layer 3 on cpu", "per_layer"}, [&] {
    manager.open({Residency::uniform, {1, 1, 1, 0, 1}});
  });
  manager.open({Residency::per_layer, {1, 1, 1, 0, 1}});
}

TEST_F(StateManagerTest, HomesMustExist) {
  expect_error(ErrorCode::mismatch, {"4 homes for 5 layers"}, [&] {
    manager.open({Residency::uniform, std::vector<int>(4, 0)});
  });
  expect_error(ErrorCode::invalid_argument, {"layer 2 is backend 2"}, [&] {
    manager.open({Residency::per_layer, {0, 0, 2, 0, 0}});
  });
  expect_error(ErrorCode::invalid_argument, {"backend -1"}, [&] {
    manager.open({Residency::uniform, std::vector<int>(5, -1)});
  });
  const SequenceId id = open_on(0);
  EXPECT_EQ(to_string(id), "0.1");
  expect_error(ErrorCode::invalid_argument, {"layer 5 does not exist"}, [&] { manager.home(id, 5); });
  expect_error(ErrorCode::invalid_argument, {"layer -1"}, [&] { manager.view(id, -1); });
}

TEST_F(StateManagerTest, NoMoreSequencesThanTheBudget) {
  const SequenceId id = open_on(0);
  open_on(1);
  open_on(1);
  expect_error(ErrorCode::out_of_memory, {"all 3 sequences"}, [&] { open_on(0); });
  expect_error(ErrorCode::out_of_memory, {"all 3 sequences"}, [&] { manager.fork(id); });
  manager.close(id);
  open_on(0);
}

TEST_F(StateManagerTest, NoMoreLayersThanThereIsRoomFor) {
  StateManager narrow(small_geometry(), {&cpu, &gpu}, {{.recurrent = 3, .kv = 1}, {.recurrent = 1, .kv = 2}},
                      kBudget);
  expect_error(ErrorCode::out_of_memory, {"layer 4 on cpu", "room for 1 kv"}, [&] {
    narrow.open({Residency::uniform, std::vector<int>(5, 0)});
  });
  expect_error(ErrorCode::out_of_memory, {"layer 1 on gpu", "room for 1 recurrent"}, [&] {
    narrow.open({Residency::uniform, std::vector<int>(5, 1)});
  });
  const SequenceId id = narrow.open({Residency::per_layer, {0, 1, 0, 0, 1}});
  advance(narrow, id, kThreeTokens);
}

TEST_F(StateManagerTest, AdmissionComparesBeforeItAllocates) {
  FakeBackend large("large");
  FakeBackend tiny("tiny", DType::f32, 1000);
  expect_error(
      ErrorCode::out_of_memory,
      {"state for 2 sequences of 30 tokens: needs ", "on tiny", "1000 bytes available", "smaller context"},
      [&] {
        StateManager(small_geometry(), {&large, &tiny}, {{3, 2}, {3, 2}},
                     {.sequences = 2, .context_tokens = 30});
      });
  EXPECT_EQ(large.allocations(), 0);
  EXPECT_EQ(tiny.allocations(), 0);
}

TEST_F(StateManagerTest, TwoBillionTokensAreRefusedAtOnce) {
  FakeBackend host("cpu", DType::f32, std::uint64_t{64} << 30);
  expect_error(ErrorCode::out_of_memory,
               {"state for 1 sequence of 2000000000 tokens: needs 238.42 TiB on cpu, 64.00 GiB available"},
               [&] {
                 StateManager(geometry_27b(), {&host}, {all_layers(geometry_27b())},
                              {.context_tokens = 2'000'000'000});
               });
}

TEST_F(StateManagerTest, ExactlyEnoughMemoryIsEnough) {
  const StateBudget budget{.context_tokens = 8};
  const auto bytes = static_cast<std::uint64_t>(pool_sizes(small_geometry(), {3, 2}, budget).bytes);
  FakeBackend enough("enough", DType::f32, bytes);
  const StateManager fits(small_geometry(), {&enough}, {{3, 2}}, budget);
  EXPECT_EQ(enough.available_bytes(), 0u);
  EXPECT_EQ(fits.usage()[0].reserved_bytes, static_cast<std::int64_t>(bytes));
  FakeBackend less("less", DType::f32, bytes - 1);
  expect_error(ErrorCode::out_of_memory, {"on less"}, [&] {
    StateManager(small_geometry(), {&less}, {{3, 2}}, budget);
  });
}

TEST_F(StateManagerTest, ConstructorChecksItsArguments) {
  const std::vector<LayerCapacity> one{{3, 2}};
  expect_error(ErrorCode::mismatch, {"2 backends and capacities of 1"}, [&] {
    StateManager(small_geometry(), {&cpu, &gpu}, one, kBudget);
  });
  expect_error(ErrorCode::invalid_argument, {"null"},
               [&] { StateManager(small_geometry(), {nullptr}, one, kBudget); });
  FakeBackend judge("reference", DType::f64);
  expect_error(ErrorCode::mismatch, {"state is f32, backend reference computes in f64"},
               [&] { StateManager(small_geometry(), {&judge}, one, kBudget); });
}

TEST_F(StateManagerTest, DoublesForTheReference) {
  FakeBackend judge("reference", DType::f64);
  StateGeometry geometry = small_geometry();
  geometry.real = DType::f64;
  StateManager doubles(geometry, {&judge}, {{3, 2}}, kBudget);
  const SequenceId id = doubles.open({Residency::uniform, std::vector<int>(5, 0)});
  StateStep step = doubles.begin(id, 5);
  EXPECT_EQ(step.recurrent_in(0, 0).dtype, DType::f64);
  EXPECT_EQ(step.recurrent_out(0, 0).bytes(), 2 * 3 * 5 * 8);
  step.commit();
  EXPECT_EQ(export_layer(doubles, id, 2).piece("keys").size(), 2u * 5 * 3 * 8);
}

TEST_F(StateManagerTest, ModelsOfOneKindOfLayer) {
  StateGeometry geometry = small_geometry();
  geometry.layers = {LayerKind::recurrent};
  geometry.kv = {.page_tokens = 0};
  StateManager recurrent(geometry, {&cpu}, {{.recurrent = 1}}, kBudget);
  const SequenceId id = recurrent.open({Residency::uniform, {0}});
  advance(recurrent, id, kThreeTokens);
  EXPECT_EQ(recurrent.tokens(id), 3);
  EXPECT_EQ(recurrent.usage()[0].pages_total, 0);

  geometry = small_geometry();
  geometry.layers = {LayerKind::attention};
  StateManager kv(geometry, {&cpu}, {{.kv = 1}}, kBudget);
  const SequenceId other = kv.open({Residency::uniform, {0}});
  advance(kv, other, kThreeTokens);
  EXPECT_EQ(kv.tokens(other), 3);
  EXPECT_EQ(kv.usage()[0].slots_total, 0);
  EXPECT_EQ(kv.usage()[0].slots_used, 0);
}

TEST_F(StateManagerTest, DestructionGivesAllMemoryBack) {
  FakeBackend host("host");
  {
    StateManager local(small_geometry(), {&host}, {{3, 2}}, kBudget);
    advance(local, local.open({Residency::uniform, std::vector<int>(5, 0)}), kThreeTokens);
    EXPECT_EQ(host.allocations(), 2);
  }
  EXPECT_EQ(host.allocated_bytes(), 0u);
}

}  // namespace
}  // namespace tandem::testing
