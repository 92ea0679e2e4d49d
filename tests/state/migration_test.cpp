#include "state/migration.hpp"

#include "backends/faulty/faulty_backend.hpp"
#include "tests/state/state_fixture.hpp"

namespace tandem::testing {
namespace {

/// Two devices with room for everything. Layers r r k r k, pages of 4 tokens, 3 kept versions.
class MigrationTest : public ::testing::Test {
 protected:
  static constexpr StateBudget kBudget{.sequences = 3, .context_tokens = 20, .kept_versions = 3};
  static constexpr int kLayers = 5;

  SequenceId open(Residency residency = Residency::per_layer) {
    const SequenceId id = manager.open({residency, std::vector<int>(kLayers, 0)});
    advance(manager, id, {1, 2, 3});
    advance(manager, id, {4, 5});
    return id;
  }

  /// Every kept version of a sequence, bit for bit.
  std::vector<std::vector<LayerState>> everything(SequenceId id) const {
    std::vector<std::vector<LayerState>> versions;
    for (const VersionInfo& version : manager.versions(id))
      versions.push_back(export_all(manager, id, version.number));
    return versions;
  }

  std::uint64_t allocated_bytes() const {
    return near_memory->allocated_bytes() + far_memory->allocated_bytes();
  }

  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  FakeBackend* near_memory = new FakeBackend("near");
  FakeBackend* far_memory = new FakeBackend("far");
  std::unique_ptr<Backend> near = make_faulty_backend(std::unique_ptr<Backend>(near_memory), faults);
  std::unique_ptr<Backend> far = make_faulty_backend(std::unique_ptr<Backend>(far_memory), faults);
  StateManager manager{small_geometry(),
                       {near.get(), far.get()},
                       {all_layers(small_geometry()), all_layers(small_geometry())},
                       kBudget};
};

TEST_F(MigrationTest, ALayerArrivesWithAllItsVersions) {
  for (int layer = 0; layer < kLayers; ++layer) {
    const SequenceId id = open();
    const auto before = everything(id);
    const Used held = used(manager);
    const MigrationReport report = migrate(manager, {id, 1, {layer}});
    for (int l = 0; l < kLayers; ++l) EXPECT_EQ(manager.home(id, l), l == layer ? 1 : 0);
    EXPECT_EQ(everything(id), before);
    EXPECT_EQ(used(manager), held);
    ASSERT_EQ(report.layers.size(), 1u);
    const MovedLayer& moved = report.layers.front();
    EXPECT_EQ(moved.sequence, id);
    EXPECT_EQ(moved.layer, layer);
    EXPECT_EQ(moved.from, 0);
    EXPECT_EQ(moved.to, 1);
    EXPECT_EQ(moved.bytes, report.bytes);
    const StateGeometry& g = manager.geometry();
    const bool recurrent = g.layers[layer] == LayerKind::recurrent;
    EXPECT_EQ(report.bytes,
              2 * (recurrent ? g.slot_bytes() : g.page_stride()));  // the zero slot does not move
    ASSERT_EQ(moved.versions.size(), recurrent ? 3u : 1u);
    EXPECT_EQ(moved.versions.back().info, manager.versions(id).back());
    EXPECT_EQ(moved.versions.back().checksum, checksum(export_layer(manager, id, layer)));
    EXPECT_GE(report.milliseconds, 0);
    manager.close(id);
    EXPECT_EQ(used(manager), Used{});
  }
}

TEST_F(MigrationTest, LifeGoesOnThere) {
  const SequenceId id = open();
  const SequenceId undisturbed = manager.fork(id);
  migrate(manager, {id, 1, {0, 2}});
  migrate(manager, {id, 1, {4}});
  for (SequenceId each : {id, undisturbed}) {
    advance(manager, each, {6, 7, 8, 9});
    manager.rollback(each, manager.versions(each)[1].number);
    advance(manager, each, {10});
  }
  EXPECT_EQ(everything(id), everything(undisturbed));
  migrate(manager, {id, 0, {}});
  EXPECT_EQ(manager.homes(id), std::vector<int>(kLayers, 0));
  EXPECT_EQ(everything(id), everything(undisturbed));
  for (SequenceId each : {id, undisturbed}) {
    manager.reset(each);
    advance(manager, each, {1});
  }
  EXPECT_EQ(export_all(manager, id), export_all(manager, undisturbed));
}

TEST_F(MigrationTest, WhatIsThereAlreadyStays) {
  const SequenceId id = open();
  migrate(manager, {id, 1, {1, 2}});
  const std::int64_t calls = faults->calls("near") + faults->calls("far");
  EXPECT_TRUE(migrate(manager, {id, 1, {1, 2, 2}}).layers.empty());
  EXPECT_EQ(faults->calls("near") + faults->calls("far"), calls);
  EXPECT_EQ(migrate(manager, {id, 1, {}}).layers.size(), 3u);
}

TEST_F(MigrationTest, ForksAreMovedTogetherOnceAndStayShared) {
  const SequenceId one = open();
  const SequenceId two = manager.fork(one);
  const auto before = everything(one);
  const Used held = used(manager);
  const Move moves[] = {{one, 1, {}}, {two, 1, {}}};
  const MigrationReport report = migrate(manager, moves);
  EXPECT_EQ(report.layers.size(), 10u);
  EXPECT_EQ(report.bytes, 3 * 2 * manager.geometry().slot_bytes() + 2 * 2 * manager.geometry().page_stride());
  EXPECT_EQ(used(manager), held);
  EXPECT_EQ(manager.usage()[0].used_bytes, 0);
  advance(manager, two, {8, 9});
  EXPECT_EQ(everything(one), before);
}

TEST_F(MigrationTest, OneOfTwoForksLeavesTheOtherItsBlocks) {
  const SequenceId one = open();
  const SequenceId two = manager.fork(one);
  const auto before = everything(one);
  migrate(manager, {one, 1, {}});
  EXPECT_EQ(everything(one), before);
  EXPECT_EQ(everything(two), before);
  EXPECT_EQ(manager.usage()[0].used_bytes, manager.usage()[1].used_bytes);
}

TEST_F(MigrationTest, UniformSequencesMoveWhole) {
  const SequenceId id = open(Residency::uniform);
  const auto before = everything(id);
  expect_error(ErrorCode::mismatch, {"uniform residency", "layer 0 lives on near", "layer 2 on far"}, [&] {
    migrate(manager, {id, 1, {2}});
  });
  EXPECT_EQ(manager.homes(id), std::vector<int>(kLayers, 0));
  EXPECT_EQ(migrate(manager, {id, 1, {}}).layers.size(), 5u);
  EXPECT_EQ(everything(id), before);
}

TEST_F(MigrationTest, WhatHasNoMeaningIsRefused) {
  const SequenceId id = open();
  expect_error(ErrorCode::invalid_argument, {"layer 5 does not exist"}, [&] {
    migrate(manager, {id, 1, {5}});
  });
  expect_error(ErrorCode::invalid_argument, {"backend 2"}, [&] { migrate(manager, {id, 2, {0}}); });
  expect_error(ErrorCode::not_found, {"never opened"}, [&] { migrate(manager, {SequenceId{7, 1}, 1, {}}); });
  const Move both_ways[] = {{id, 1, {0, 1}}, {id, 0, {1}}};
  expect_error(ErrorCode::invalid_argument, {"layer 1", "two backends"},
               [&] { migrate(manager, both_ways); });
  const StateStep step = manager.begin(id, 1);
  expect_error(ErrorCode::invalid_argument, {"open step", "migrate it"}, [&] {
    migrate(manager, {id, 1, {}});
  });
}

TEST_F(MigrationTest, WithoutRoomNothingMoves) {
  StateManager narrow(small_geometry(), {near.get(), far.get()}, {{3, 2}, {2, 1}}, kBudget);
  const SequenceId id = narrow.open({Residency::per_layer, std::vector<int>(kLayers, 0)});
  advance(narrow, id, kThreeTokens);
  const auto usage = narrow.usage();
  expect_error(ErrorCode::out_of_memory, {"layer 4 on far", "room for 1 kv layers"}, [&] {
    migrate(narrow, {id, 1, {2, 4}});
  });
  expect_error(ErrorCode::out_of_memory, {"layer 3 on far"}, [&] { migrate(narrow, {id, 1, {}}); });
  EXPECT_EQ(narrow.usage(), usage);
  migrate(narrow, {id, 1, {0, 1, 2}});
  migrate(narrow, {id, 0, {0}});
  migrate(narrow, {id, 1, {3}});
}

TEST_F(MigrationTest, EveryCallMayFailAndNothingHasHappened) {
  const SequenceId id = open();
  const auto before = everything(id);
  const auto usage = manager.usage();
  const std::uint64_t memory = allocated_bytes();
  std::int64_t calls[2];
  {
    const SequenceId copy = manager.fork(id);
    const std::int64_t start[] = {faults->calls("near"), faults->calls("far")};
    migrate(manager, {copy, 1, {}});
    calls[0] = faults->calls("near") - start[0];
    calls[1] = faults->calls("far") - start[1];
    manager.close(copy);
  }
  EXPECT_GT(calls[0] + calls[1], 20);
  for (int b = 0; b < 2; ++b) {
    for (std::int64_t call = 1; call <= calls[b]; ++call) {
      faults->arm(fmt::format("{}/fail@any:{}", b == 0 ? "near" : "far", call));
      expect_error(ErrorCode::device_lost,
                   {"migration of layer 0", "from near to far", "injected", "nothing was moved"}, [&] {
                     migrate(manager, {id, 1, {}});
                   });
      ASSERT_EQ(faults->armed(), 0u);
      ASSERT_EQ(manager.homes(id), std::vector<int>(kLayers, 0));
      ASSERT_EQ(manager.usage(), usage);
      ASSERT_EQ(everything(id), before);
    }
  }
  EXPECT_EQ(allocated_bytes(), memory);
  migrate(manager, {id, 1, {}});
  EXPECT_EQ(everything(id), before);
}

TEST_F(MigrationTest, AFlippedBitIsFoundAndNothingMoves) {
  const SequenceId id = open();
  const auto before = everything(id);
  const auto usage = manager.usage();
  // 3 layers of 2 slots and 2 of 2 pages, received from one and sent to the other.
  for (const char* way : {"near/flip@receive", "far/flip@send"}) {
    for (int transfer = 1; transfer <= 10; ++transfer) {
      faults->arm(fmt::format("{}:{}:bit=2", way, transfer));
      expect_error(ErrorCode::mismatch,
                   {"layer", "version", "on near, but", "arrived on far", "nothing was moved"}, [&] {
                     migrate(manager, {id, 1, {}});
                   });
      ASSERT_EQ(faults->armed(), 0u);
      ASSERT_EQ(manager.homes(id), std::vector<int>(kLayers, 0));
      ASSERT_EQ(manager.usage(), usage);
      ASSERT_EQ(everything(id), before);
    }
  }
}

TEST_F(MigrationTest, NothingLeaksOverManyCycles) {
  const std::uint64_t memory = allocated_bytes();
  for (int cycle = 0; cycle < 500; ++cycle) {
    const SequenceId id = open();
    const auto before = export_all(manager, id);
    migrate(manager, {id, 1, {cycle % kLayers, (cycle + 2) % kLayers}});
    const SequenceId twin = manager.fork(id);
    advance(manager, twin, {7});
    migrate(manager, {twin, cycle % 2, {}});
    manager.rollback(twin, manager.versions(id).back().number);
    ASSERT_EQ(export_all(manager, twin), before);
    ASSERT_EQ(export_all(manager, id), before);
    manager.close(id);
    manager.close(twin);
    ASSERT_EQ(used(manager), Used{});
  }
  EXPECT_EQ(allocated_bytes(), memory);
}

}  // namespace
}  // namespace tandem::testing
