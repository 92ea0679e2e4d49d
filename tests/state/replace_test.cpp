#include <algorithm>

#include "state/unsafe_restart.hpp"
#include "tests/state/state_fixture.hpp"

/// A sequence that another one takes the place of, and one that goes on without its state.
namespace tandem::testing {
namespace {

class ReplaceTest : public StateTest {
 protected:
  SequenceId after(const std::vector<std::vector<std::uint32_t>>& steps, int backend) {
    const SequenceId id = manager.open({Residency::per_layer, std::vector<int>(5, backend)});
    for (const auto& tokens : steps) advance(manager, id, tokens);
    return id;
  }
};

TEST_F(ReplaceTest, VersionsKeepTheirNumbers) {
  const SequenceId id = after({{1, 2}, {3}, {4, 5}, {6}}, 0);
  const SequenceId rebuilt = after({{1}, {2, 3}, {4, 5}, {6}}, 1);
  std::vector<std::vector<LayerState>> before;
  const std::vector<VersionInfo> versions = manager.versions(id);
  for (const VersionInfo& version : versions) before.push_back(export_all(manager, id, version.number));
  manager.replace(id, rebuilt);
  EXPECT_EQ(manager.versions(id), versions);
  for (std::size_t v = 0; v < versions.size(); ++v)
    EXPECT_EQ(export_all(manager, id, versions[v].number), before[v]);
  EXPECT_EQ(manager.homes(id), std::vector<int>(5, 1));
  EXPECT_EQ(manager.usage()[0].used_bytes, 0);
  expect_error(ErrorCode::not_found, {"was closed"}, [&] { manager.tokens(rebuilt); });
  manager.rollback(id, versions[0].number);
  advance(manager, id, {7, 8, 9});
  manager.close(id);
  EXPECT_EQ(used(manager), Used{});
}

TEST_F(ReplaceTest, WhatDoesNotMatchIsRefused) {
  const SequenceId id = after({{1, 2}, {3}}, 0);
  const SequenceId longer = after({{1, 2}, {3}, {4}}, 1);
  expect_error(ErrorCode::mismatch, {"4 tokens cannot replace", "of 3"},
               [&] { manager.replace(id, longer); });
  manager.close(longer);
  const SequenceId other_steps = after({{1}, {2, 3}}, 1);
  expect_error(ErrorCode::mismatch, {"no version of 2 tokens"}, [&] { manager.replace(id, other_steps); });
  expect_error(ErrorCode::invalid_argument, {"by itself"}, [&] { manager.replace(id, id); });
  const StateStep step = manager.begin(other_steps, 1);
  expect_error(ErrorCode::invalid_argument, {"open step"}, [&] { manager.replace(id, other_steps); });
  EXPECT_EQ(manager.tokens(id), 3);
}

TEST_F(ReplaceTest, AnUnsafeRestartIsZeroAndMarkedForGood) {
  const SequenceId id = after({{1, 2, 3}, {4, 5}}, 0);
  const SequenceId before = manager.fork(id);
  unsafe_restart(manager, id, {0, 1, 1, 0, 0});
  EXPECT_TRUE(manager.unsafe(id));
  EXPECT_FALSE(manager.unsafe(before));
  EXPECT_EQ(manager.homes(id), (std::vector<int>{0, 1, 1, 0, 0}));
  EXPECT_EQ(manager.versions(id), manager.versions(before));
  const auto is_zero = [](std::span<const std::byte> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
  };
  for (int layer = 0; layer < 5; ++layer) {
    const LayerState state = export_layer(manager, id, layer);
    const bool restarted = layer == 1 || layer == 2;
    EXPECT_EQ(state == export_layer(manager, before, layer), !restarted);
    if (!restarted) continue;
    EXPECT_TRUE(!state.bytes.empty() && is_zero(state.bytes));
  }
  advance(manager, id, {6});
  const SequenceId fork = manager.fork(id);
  manager.reset(id);
  EXPECT_TRUE(manager.unsafe(id));
  EXPECT_TRUE(manager.unsafe(fork));
  for (SequenceId each : {id, before, fork}) manager.close(each);
  EXPECT_EQ(used(manager), Used{});
  EXPECT_FALSE(manager.unsafe(open_on(0)));
}

TEST_F(ReplaceTest, AnUnsafeRestartOfAPartIsNotUniform) {
  const SequenceId id = open_on(0);
  expect_error(ErrorCode::mismatch, {"uniform residency"}, [&] {
    unsafe_restart(manager, id, {0, 1, 0, 0, 0});
  });
  EXPECT_FALSE(manager.unsafe(id));
}

}  // namespace
}  // namespace tandem::testing
