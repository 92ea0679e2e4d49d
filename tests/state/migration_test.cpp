#include "state/migration.hpp"

#include <fmt/format.h>

#include "backends/faulty/faulty_backend.hpp"
#include "core/faults.hpp"
#include "tests/state/state_fixture.hpp"

namespace tandem::testing {
namespace {

/// The checksum of a layer's blocks, read from where they lie.
Checksum checksum_of_blocks(const StateManager& manager, const LayerView& view) {
  const StateGeometry& geometry = manager.geometry();
  const bool recurrent = view.kind == LayerKind::recurrent;
  std::vector<const void*> blocks(view.pages.begin(), view.pages.end());
  if (recurrent) blocks = {view.piece("recurrent").data};
  std::vector<Checksum> checksums;
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(recurrent ? geometry.slot_bytes() : geometry.page_stride()));
  for (const void* block : blocks) {
    view.backend->download(bytes.data(), block, bytes.size());
    checksums.push_back(block_checksum(bytes));
  }
  return join_checksums(checksums);
}

std::unique_ptr<FakeBackend> fake(const char* name, bool is_host) {
  auto backend = std::make_unique<FakeBackend>(name);
  if (!is_host) backend->become_device();
  return backend;
}

/// Two backends with room for everything, devices if nothing else is said. Layers r r k r k, pages of 4
/// tokens, 3 kept versions.
class MigrationTest : public ::testing::Test {
 protected:
  explicit MigrationTest(bool near_is_host = false, bool far_is_host = false)
      : near_memory(fake("near", near_is_host)), far_memory(fake("far", far_is_host)) {}

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

  std::int64_t calls() const { return faults->calls("near") + faults->calls("far"); }

  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  std::unique_ptr<FakeBackend> near_memory, far_memory;
  FakeBackend& near_fake = *near_memory;
  FakeBackend& far_fake = *far_memory;
  std::unique_ptr<Backend> near = make_faulty_backend(std::move(near_memory), faults);
  std::unique_ptr<Backend> far = make_faulty_backend(std::move(far_memory), faults);
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
    for (const MovedVersion& version : moved.versions) {
      EXPECT_EQ(version.checksum, checksum_of_blocks(manager, manager.view(id, layer, version.info.number)));
    }
    EXPECT_GE(report.milliseconds, 0);
    manager.close(id);
    EXPECT_EQ(used(manager), Used{});
  }
}

TEST(MigrationMemory, WhatCannotMoveIsNotPageLocked) {
  const std::unique_ptr<FakeBackend> host = fake("host", true), device = fake("device", false);
  const auto staging_of = [&](LayerCapacity here, LayerCapacity there) {
    const StateManager manager(small_geometry(), {host.get(), device.get()}, {here, there}, {1, 20, 1});
    EXPECT_EQ(manager.usage()[0].reserved_bytes, pool_sizes(small_geometry(), here, manager.budget()).bytes);
    return FakeBackend::staging_bytes();
  };
  EXPECT_EQ(staging_of({3, 2}, {0, 0}), 0u);
  EXPECT_EQ(staging_of({1, 1}, {2, 1}), 0u);
  EXPECT_GT(staging_of({3, 2}, {1, 0}), 0u);
  EXPECT_GT(staging_of({1, 2}, {2, 1}), 0u);
  EXPECT_EQ(FakeBackend::staging_bytes(), 0u);
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
  const std::int64_t before_calls = calls();
  EXPECT_TRUE(migrate(manager, {id, 1, {1, 2, 2}}).layers.empty());
  EXPECT_EQ(calls(), before_calls);
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

/// On which side memory is the host's.
struct Sides {
  const char* name;
  bool near_is_host;
  bool far_is_host;
};

class MigrationOn : public MigrationTest, public ::testing::WithParamInterface<Sides> {
 protected:
  MigrationOn() : MigrationTest(GetParam().near_is_host, GetParam().far_is_host) {}

  bool direct() const { return GetParam().near_is_host || GetParam().far_is_host; }
  std::uint64_t allocated() const {
    return near_fake.allocated_bytes() + far_fake.allocated_bytes() + FakeBackend::staging_bytes();
  }
  /// How often a backend is asked to send, or to receive, when a sequence moves.
  std::int64_t calls_of(std::string_view backend, FaultCall call, SequenceId id) {
    const SequenceId copy = manager.fork(id);
    const std::int64_t before = faults->calls(backend, call);
    migrate(manager, {copy, 1, {}});
    manager.close(copy);
    return faults->calls(backend, call) - before;
  }
  std::int64_t transfers_of(std::string_view backend, SequenceId id) {
    return calls_of(backend, FaultCall::send, id) + calls_of(backend, FaultCall::receive, id);
  }
};
INSTANTIATE_TEST_SUITE_P(Sides, MigrationOn,
                         ::testing::Values(Sides{"DeviceToDevice", false, false},
                                           Sides{"HostToDevice", true, false},
                                           Sides{"DeviceToHost", false, true},
                                           Sides{"HostToHost", true, true}),
                         [](const auto& info) { return info.param.name; });

TEST_P(MigrationOn, ThereAndBackIsTheSame) {
  const SequenceId id = open();
  const auto before = everything(id);
  const auto usage = manager.usage();
  const MigrationReport there = migrate(manager, {id, 1, {}});
  EXPECT_EQ(everything(id), before);
  const MigrationReport back = migrate(manager, {id, 0, {}});
  EXPECT_EQ(everything(id), before);
  EXPECT_EQ(manager.usage(), usage);
  ASSERT_EQ(there.layers.size(), back.layers.size());
  for (std::size_t i = 0; i < there.layers.size(); ++i)
    EXPECT_EQ(there.layers[i].versions, back.layers[i].versions) << "layer " << i;
}

TEST_P(MigrationOn, ABlockOfTheHostIsCarriedOnce) {
  const SequenceId id = open();
  const std::uint64_t staging = FakeBackend::staging_bytes();
  const Sides sides = GetParam();
  EXPECT_EQ(staging > 0, sides.near_is_host != sides.far_is_host) << "pools that a device reaches";
  EXPECT_EQ(transfers_of("near", id), sides.near_is_host ? 0 : 10);
  EXPECT_EQ(transfers_of("far", id), sides.near_is_host || !sides.far_is_host ? 10 : 0);
  EXPECT_EQ(FakeBackend::staging_bytes(), staging);
}

TEST_P(MigrationOn, WithoutPageLockedMemoryItTakesTheDetour) {
  // A page-locked pool, if one is asked for: after the device's own two when that comes first.
  const Sides sides = GetParam();
  if (sides.near_is_host && !sides.far_is_host) faults->arm("far/fail@alloc:1");
  if (!sides.near_is_host && sides.far_is_host) faults->arm("near/fail@alloc:3");
  StateManager detour(small_geometry(), {near.get(), far.get()},
                      {all_layers(small_geometry()), all_layers(small_geometry())}, kBudget);
  ASSERT_EQ(faults->armed(), 0u);
  for (int home : {0, 1}) {
    const SequenceId id = detour.open({Residency::per_layer, std::vector<int>(kLayers, home)});
    advance(detour, id, kThreeTokens);
    const auto before = export_all(detour, id);
    migrate(detour, {id, 1 - home, {}});
    EXPECT_EQ(export_all(detour, id), before);
    migrate(detour, {id, home, {}});
    EXPECT_EQ(export_all(detour, id), before);
  }
}

TEST_P(MigrationOn, EveryCallMayFailAndNothingHasHappened) {
  const SequenceId id = open();
  const auto before = everything(id);
  const auto usage = manager.usage();
  const std::uint64_t memory = allocated();
  std::int64_t calls[2];
  {
    const SequenceId copy = manager.fork(id);
    const std::int64_t start[] = {faults->calls("near"), faults->calls("far")};
    migrate(manager, {copy, 1, {}});
    calls[0] = faults->calls("near") - start[0];
    calls[1] = faults->calls("far") - start[1];
    manager.close(copy);
  }
  EXPECT_GT(calls[0] + calls[1], direct() ? 12 : 20);  // blocks, checksums, marks, staging memory
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
      ASSERT_EQ(allocated(), memory);
    }
  }
  EXPECT_EQ(allocated(), memory);
  migrate(manager, {id, 1, {}});
  EXPECT_EQ(everything(id), before);
}

TEST_P(MigrationOn, AFlippedBitIsFoundAndNothingMoves) {
  const SequenceId id = open();
  const auto before = everything(id);
  const auto usage = manager.usage();
  std::int64_t flips = 0;
  for (const std::string backend : {"near", "far"}) {
    for (FaultCall call : {FaultCall::receive, FaultCall::send}) {
      const std::int64_t transfers = calls_of(backend, call, id);
      for (std::int64_t transfer = 1; transfer <= transfers; ++transfer, ++flips) {
        faults->arm(fmt::format("{}/flip@{}:{}:bit=2", backend, name(call), transfer));
        expect_error(ErrorCode::mismatch,
                     {"layer", "version", "on near, but", "arrived on far", "nothing was moved"}, [&] {
                       migrate(manager, {id, 1, {}});
                     });
        ASSERT_EQ(manager.homes(id), std::vector<int>(kLayers, 0));
        ASSERT_EQ(manager.usage(), usage);
        ASSERT_EQ(everything(id), before);
      }
    }
  }
  // 3 layers of 2 slots and 2 of 2 pages: received and sent between devices, else carried once.
  EXPECT_EQ(flips, direct() ? 10 : 20);
}

TEST_P(MigrationOn, NothingLeaksOverManyCycles) {
  const std::uint64_t memory = allocated();
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
  EXPECT_EQ(allocated(), memory);
}

}  // namespace
}  // namespace tandem::testing
