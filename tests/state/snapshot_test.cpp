#include "state/snapshot.hpp"

#include "state/unsafe_restart.hpp"
#include "tests/state/snapshot_fixture.hpp"

namespace tandem::testing {
namespace {

TEST_F(SnapshotTest, ReadsWhatWasWritten) {
  const Snapshot snapshot = Snapshot::open(save(6));
  const StateContract& contract = snapshot.contract();
  EXPECT_EQ(contract.tokens, 6);
  EXPECT_EQ(contract.model, kModel);
  EXPECT_EQ(contract.geometry.layers, small_geometry().layers);
  EXPECT_EQ(contract.geometry.recurrent, small_geometry().recurrent);
  EXPECT_EQ(snapshot.ids(), ids(7));
  EXPECT_EQ(std::vector(snapshot.pending_ids().begin(), snapshot.pending_ids().end()),
            std::vector<TokenId>{106});
  EXPECT_EQ(snapshot.sampling(), kSampling);
  const SequenceId id = open_on(1);
  advance(manager, id, step(6));
  EXPECT_EQ(difference(make_contract(manager, id, kModel), contract), "");
}

TEST_F(SnapshotTest, TheSameStateIsTheSameFileWhereverItLives) {
  const std::string split = read(save(9));
  const SequenceId id = open_on(1);
  for (const std::uint32_t token : step(9)) advance(manager, id, {token});
  save_snapshot(path("b.tds"), manager, id, kModel, ids(10), kSampling);
  EXPECT_TRUE(read(path("b.tds")) == split);
}

TEST_F(SnapshotTest, ImportedStateIsTheStateOnAnyPlacement) {
  for (const int tokens : {0, 1, 3, 4, 5, 8, 13, 20}) {
    const Snapshot snapshot = Snapshot::open(save(tokens));
    const SequenceId original = open_on(0);
    if (tokens > 0) advance(manager, original, step(tokens));
    for (const auto& home : {std::vector{0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}, {1, 0, 0, 1, 1}, {0, 1, 1, 0, 1}}) {
      const SequenceId id = import_snapshot(manager, on(home), snapshot, kModel);
      EXPECT_EQ(manager.tokens(id), tokens);
      EXPECT_EQ(export_all(manager, id), export_all(manager, original)) << tokens;
      for (int layer = 0; layer < 5; ++layer) EXPECT_EQ(manager.home(id, layer), home[layer]);
      manager.close(id);
    }
    manager.close(original);
  }
  EXPECT_EQ(used(manager), Used{});
}

TEST_F(SnapshotTest, AnImportedSequenceGoesOnAsIfNothingHadHappened) {
  for (const int tokens : {0, 2, 4, 7}) {
    const Snapshot snapshot = Snapshot::open(save(tokens));
    const SequenceId original = open_on(0);
    if (tokens > 0) advance(manager, original, step(tokens));
    const SequenceId id = import_snapshot(manager, on({1, 1, 0, 0, 1}), snapshot, kModel);
    const SequenceId fork = manager.fork(id);
    for (const SequenceId each : {original, id, fork}) advance(manager, each, {1, 2, 3, 4, 5});
    EXPECT_EQ(export_all(manager, id), export_all(manager, original)) << tokens;
    EXPECT_EQ(export_all(manager, fork), export_all(manager, original)) << tokens;
    manager.rollback(id, manager.versions(id)[manager.versions(id).size() - 2].number);
    EXPECT_EQ(manager.tokens(id), tokens);
    for (const SequenceId each : {original, id, fork}) manager.close(each);
  }
}

TEST_F(SnapshotTest, ForeignStateIsAMismatchThatNamesTheField) {
  const Snapshot snapshot = Snapshot::open(save(3));
  expect_error(ErrorCode::mismatch, {"a.tds", "model: expected other", kModel}, [&] {
    import_snapshot(manager, on({0, 0, 0, 0, 0}), snapshot, "other");
  });
  StateGeometry geometry = small_geometry();
  std::swap(geometry.recurrent.key_dim, geometry.recurrent.value_dim);
  StateManager turned(geometry, {&cpu}, {all_layers(geometry)}, kBudget);
  expect_error(ErrorCode::mismatch, {"a.tds", "key_dim: expected 5, found 3"}, [&] {
    import_snapshot(turned, on({0, 0, 0, 0, 0}), snapshot, kModel);
  });
  FakeBackend judge("reference", DType::f64);
  geometry = small_geometry();
  geometry.real = DType::f64;
  StateManager wide(geometry, {&judge}, {all_layers(geometry)}, kBudget);
  expect_error(ErrorCode::mismatch, {"a.tds", "holds f32 state", "compute in f64"}, [&] {
    import_snapshot(wide, on({0, 0, 0, 0, 0}), snapshot, kModel);
  });
  EXPECT_EQ(used(manager), Used{});
}

TEST_F(SnapshotTest, StateOfAnotherArithmeticVersionIsAMismatchThatNamesBoth) {
  std::string bytes = read(save(3));
  ASSERT_EQ(number_at<std::int32_t>(bytes, 188), kArithmeticVersion);
  put(bytes, 188, kArithmeticVersion - 1);
  seal_all(bytes);
  const Snapshot snapshot = Snapshot::open(write(bytes));
  EXPECT_EQ(snapshot.contract().arithmetic, kArithmeticVersion - 1);
  expect_error(ErrorCode::mismatch, {"b.tds", "arithmetic version 1", "version 2", "from the tokens"}, [&] {
    import_snapshot(manager, on({0, 0, 0, 0, 0}), snapshot, kModel);
  });
  EXPECT_EQ(used(manager), Used{});
}

TEST_F(SnapshotTest, AFileOfTheFirstFormatIsRefusedByItsVersion) {
  std::string bytes = read(save(3));
  put(bytes, 8, std::int32_t{1});
  seal_all(bytes);
  expect_error(ErrorCode::unsupported, {"format version 1, this program reads version 2"},
               [&] { Snapshot::open(write(bytes)); });
}

TEST_F(SnapshotTest, TheMarkOfAnUnsafeRestartSurvivesAFile) {
  const SequenceId id = open_split();
  advance(manager, id, step(3));
  save_snapshot(path(), manager, id, kModel, ids(4));
  EXPECT_FALSE(Snapshot::open(path()).unsafe());
  unsafe_restart(manager, id, {1, 0, 0, 0, 0});
  save_snapshot(path("b.tds"), manager, id, kModel, ids(4));
  const Snapshot marked = Snapshot::open(path("b.tds"));
  EXPECT_TRUE(marked.unsafe());
  EXPECT_FALSE(marked.sampling());
  const SequenceId loaded = import_snapshot(manager, on({0, 0, 1, 1, 0}), marked, kModel);
  EXPECT_TRUE(manager.unsafe(loaded));
  manager.close(id);
  save_snapshot(path("c.tds"), manager, loaded, kModel, ids(4));
  EXPECT_TRUE(read(path("c.tds")) == read(path("b.tds")));
  const SequenceId safe = import_snapshot(manager, on({0, 0, 0, 0, 0}), Snapshot::open(path()), kModel);
  EXPECT_FALSE(manager.unsafe(safe));
}

TEST_F(SnapshotTest, PagesMayHaveAnotherSizeThere) {
  const Snapshot snapshot = Snapshot::open(save(11));
  StateGeometry geometry = small_geometry();
  geometry.kv.page_tokens = 3;
  StateManager other(geometry, {&gpu}, {all_layers(geometry)}, kBudget);
  const SequenceId there = import_snapshot(other, on({0, 0, 0, 0, 0}), snapshot, kModel);
  const SequenceId here = import_snapshot(manager, on({0, 0, 0, 0, 0}), snapshot, kModel);
  EXPECT_EQ(export_all(other, there), export_all(manager, here));
}

TEST_F(SnapshotTest, AnImportThatFailsTakesNothing) {
  const Snapshot snapshot = Snapshot::open(save(11));
  const std::vector<StateUsage> before = manager.usage();
  expect_error(ErrorCode::mismatch, {"homes"}, [&] { import_snapshot(manager, on({0}), snapshot, kModel); });
  StateManager small(small_geometry(), {&cpu}, {all_layers(small_geometry())},
                     {.sequences = 1, .context_tokens = 10, .kept_versions = 1});
  expect_error(ErrorCode::invalid_argument, {"11 tokens", "limited to 10"}, [&] {
    import_snapshot(small, on({0, 0, 0, 0, 0}), snapshot, kModel);
  });
  for (int uploads = 0; uploads < 12; ++uploads) {
    gpu.fail_upload_after(uploads);
    expect_error(ErrorCode::device_lost, {}, [&] {
      import_snapshot(manager, on({1, 1, 1, 1, 1}), snapshot, kModel);
    });
    EXPECT_EQ(manager.usage(), before) << uploads;
  }
  gpu.fail_upload_after(-1);
  std::vector<SequenceId> all;
  for (int i = 0; i < 3; ++i) all.push_back(import_snapshot(manager, on({1, 1, 1, 1, 1}), snapshot, kModel));
  expect_error(ErrorCode::out_of_memory, {"all 3 sequences"}, [&] {
    import_snapshot(manager, on({1, 1, 1, 1, 1}), snapshot, kModel);
  });
}

TEST_F(SnapshotTest, StateOfTheWrongSizeIsRefused) {
  const Snapshot snapshot = Snapshot::open(save(3));
  std::vector<std::span<const std::byte>> layers;
  for (int i = 0; i < 5; ++i) layers.push_back(snapshot.layer(i));
  expect_error(ErrorCode::mismatch, {"layer 2"}, [&] {
    import_state(manager, on({0, 0, 0, 0, 0}), 4, layers);
  });
  layers[1] = layers[1].first(100);
  expect_error(ErrorCode::mismatch, {"layer 1: 100 bytes, expected 204"}, [&] {
    import_state(manager, on({0, 0, 0, 0, 0}), 3, layers);
  });
  layers.pop_back();
  expect_error(ErrorCode::mismatch, {"4 layers"}, [&] {
    import_state(manager, on({0, 0, 0, 0, 0}), 3, layers);
  });
  expect_error(ErrorCode::invalid_argument, {"-1 tokens"}, [&] {
    import_state(manager, on({0, 0, 0, 0, 0}), -1, std::vector<std::span<const std::byte>>(5));
  });
  EXPECT_EQ(used(manager), Used{});
}

TEST_F(SnapshotTest, StateBeforeTheFirstTokenIsZero) {
  std::string bytes = read(save(0));
  const Snapshot good = Snapshot::open(path());
  EXPECT_EQ(good.contract().tokens, 0);
  const auto offset = static_cast<std::size_t>(good.layout().layers[0].offset);
  bytes.at(offset + 8) = 1;
  const std::size_t at = layer_entry(bytes, 0) + 24;
  ASSERT_EQ(number_at<std::uint64_t>(bytes, at), good.contract().layers[0].high);
  const Checksum changed = checksum(std::as_bytes(std::span(bytes)).subspan(offset, good.layer(0).size()));
  put(bytes, at, changed.high);
  put(bytes, at + 8, changed.low);
  seal_all(bytes);
  const Snapshot snapshot = Snapshot::open(write(bytes));
  expect_error(ErrorCode::invalid_argument, {"layer 0", "not zero"}, [&] {
    import_snapshot(manager, on({0, 0, 0, 0, 0}), snapshot, kModel);
  });
  EXPECT_EQ(used(manager), Used{});
}

TEST_F(SnapshotTest, WhatCannotBeReadIsNotWritten) {
  const SequenceId id = open_on(0);
  advance(manager, id, step(3));
  expect_error(ErrorCode::invalid_argument, {"seen 3 tokens", "2 ids"},
               [&] { save_snapshot(path(), manager, id, kModel, ids(2)); });
  const std::vector<TokenId> negative{1, 2, -3};
  expect_error(ErrorCode::invalid_argument, {"-3"},
               [&] { save_snapshot(path(), manager, id, kModel, negative); });
  for (const std::string& model : {std::string("two\nlines"), std::string(256, 'm')}) {
    expect_error(ErrorCode::invalid_argument, {"printable"},
                 [&] { save_snapshot(path(), manager, id, model, ids(3)); });
  }
  EXPECT_FALSE(std::filesystem::exists(path()));
  save_snapshot(path(), manager, id, kModel, ids(3));
  EXPECT_TRUE(Snapshot::open(path()).pending_ids().empty());
  EXPECT_FALSE(Snapshot::open(path()).sampling());
  expect_error(ErrorCode::io, {"nowhere"},
               [&] { save_snapshot(path("nowhere") / "a", manager, id, kModel, ids(3)); });
}

}  // namespace
}  // namespace tandem::testing
