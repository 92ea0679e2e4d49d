#include "state/host_copy.hpp"

#include "backends/faulty/faulty_backend.hpp"
#include "tests/state/state_fixture.hpp"

namespace tandem::testing {
namespace {

/// A device with faults and a host that has a place to spare. Layers r r k r k, pages of 4 tokens.
class HostCopyTest : public ::testing::Test {
 protected:
  static constexpr StateBudget kBudget{.sequences = 1, .context_tokens = 20, .kept_versions = 2};

  static LayerCapacity with_spare() {
    LayerCapacity capacity = all_layers(small_geometry());
    capacity.spare = 1;
    return capacity;
  }
  static SequenceOptions on(int backend, bool rebuild = false) {
    return {Residency::uniform, std::vector<int>(5, backend), rebuild};
  }

  /// Opens what was copied on the host, compares, closes.
  void expect_copy(const HostCopy& copy, std::int64_t tokens, const std::vector<LayerState>& expected) {
    const SequenceId restored = copy.restore(manager, on(1, true), tokens);
    EXPECT_EQ(manager.tokens(restored), tokens);
    EXPECT_EQ(export_all(manager, restored), expected) << tokens;
    manager.close(restored);
  }

  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  std::unique_ptr<Backend> device = make_faulty_backend(std::make_unique<FakeBackend>("device"), faults);
  FakeBackend host{"host"};
  StateManager manager{
      small_geometry(), {device.get(), &host}, {all_layers(small_geometry()), with_spare()}, kBudget};
  SequenceId id = manager.open(on(0));
};

TEST_F(HostCopyTest, TheLastTwoCopiesAreThere) {
  HostCopy copy(manager.geometry(), kBudget.context_tokens, host, false);
  std::vector<std::vector<LayerState>> states{export_all(manager, id)};
  EXPECT_EQ(copy.tokens(), std::vector<std::int64_t>{0});
  for (std::uint32_t t = 1; t <= 20; ++t) {
    advance(manager, id, {t});
    states.push_back(export_all(manager, id));
    if (t % 3 != 0) continue;
    EXPECT_GT(copy.take(manager, id), 0);
    EXPECT_EQ(copy.newest(), t);
    copy.finish();
    ASSERT_EQ(copy.tokens(), (std::vector<std::int64_t>{t, t - 3}));
    for (std::int64_t tokens : copy.tokens())
      expect_copy(copy, tokens, states[static_cast<std::size_t>(tokens)]);
  }
  EXPECT_EQ(HostCopy::bytes(manager.geometry(), 20),
            2 * (3 * manager.geometry().slot_bytes() + 2 * manager.geometry().page_stride()) +
                2 * 5 * manager.geometry().page_stride());
}

TEST_F(HostCopyTest, FullPagesAreCopiedOnce) {
  HostCopy copy(manager.geometry(), kBudget.context_tokens, host, false);
  const StateGeometry& g = manager.geometry();
  const std::int64_t slots = 3 * (g.recurrent_bytes() + g.conv_bytes());
  advance(manager, id, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(copy.take(manager, id), slots + 2 * 2 * g.page_bytes());
  advance(manager, id, {7});
  EXPECT_EQ(copy.take(manager, id), slots + 2 * 1 * g.page_bytes());
  advance(manager, id, {8, 9});
  EXPECT_EQ(copy.take(manager, id), slots + 2 * 2 * g.page_bytes());
}

TEST_F(HostCopyTest, ARolledBackPastIsForgotten) {
  HostCopy copy(manager.geometry(), kBudget.context_tokens, host, false);
  advance(manager, id, {1, 2, 3, 4, 5});
  copy.take(manager, id);
  const std::vector<LayerState> five = export_all(manager, id);
  advance(manager, id, {6, 7, 8, 9});
  copy.take(manager, id);
  copy.forget_beyond(7);  // while the second is under way
  copy.finish();
  EXPECT_EQ(copy.tokens(), std::vector<std::int64_t>{5});
  manager.rollback(id, manager.versions(id)[0].number);
  advance(manager, id, {16, 17, 18, 19});
  copy.take(manager, id);
  copy.finish();
  EXPECT_EQ(copy.tokens(), (std::vector<std::int64_t>{9, 5}));
  expect_copy(copy, 9, export_all(manager, id));
  expect_copy(copy, 5, five);
  copy.forget_beyond(3);
  EXPECT_TRUE(copy.tokens().empty());
  copy.clear();
  EXPECT_EQ(copy.tokens(), std::vector<std::int64_t>{0});
}

TEST_F(HostCopyTest, AFailedCopyLeavesTheOlderOneWhole) {
  for (bool verify : {false, true}) {
    manager.reset(id);
    HostCopy copy(manager.geometry(), kBudget.context_tokens, host, verify);
    advance(manager, id, {1, 2, 3, 4, 5});
    copy.take(manager, id);
    copy.finish();
    const std::vector<LayerState> five = export_all(manager, id);
    advance(manager, id, {6});
    std::vector<std::string> plans{"device/fail@receive:2", "device/fail@receive:8", "device/fail@record:1"};
    if (!verify)
      plans.insert(plans.end(), {"device/fail@wait:1", "device/delay@receive:1:ms=1,device/lost@7"});
    for (int n = 1; verify && n <= 8; ++n) plans.push_back(fmt::format("device/flip@receive:{}:bit=2", n));
    for (const std::string& plan : plans) {
      faults->arm(plan);
      const ErrorCode code =
          plan.find("flip") == std::string::npos ? ErrorCode::device_lost : ErrorCode::mismatch;
      expect_error(code, {"device"}, [&] {
        copy.take(manager, id);
        copy.finish();
      });
      EXPECT_EQ(copy.tokens(), std::vector<std::int64_t>{5}) << plan;
      expect_copy(copy, 5, five);
      faults->disarm();
      if (faults->lost("device")) continue;
      copy.take(manager, id);
      copy.finish();
      ASSERT_EQ(copy.tokens(), (std::vector<std::int64_t>{6, 5})) << plan;
      copy.forget_beyond(5);
    }
    if (faults->lost("device")) return;
  }
}

TEST_F(HostCopyTest, AFailedRestoreLeavesNothingOpen) {
  HostCopy copy(manager.geometry(), kBudget.context_tokens, host, true);
  advance(manager, id, {1, 2, 3});
  copy.take(manager, id);
  const auto usage = manager.usage();
  host.fail_upload_after(3);
  expect_error(ErrorCode::device_lost, {"host"}, [&] { copy.restore(manager, on(1, true), 3); });
  EXPECT_EQ(manager.usage(), usage);
  expect_copy(copy, 3, export_all(manager, id));
  expect_error(ErrorCode::out_of_memory, {"all 1 sequences"}, [&] { copy.restore(manager, on(1), 3); });
  expect_error(ErrorCode::out_of_memory, {"all 1 sequences"}, [&] { copy.restore(manager, on(0, true), 3); });
}

TEST_F(HostCopyTest, ThePlaceToSpareIsForOneAndComesBack) {
  for (int round = 0; round < 3; ++round) {
    const SequenceId rebuilt = manager.open(on(1, true));
    expect_error(ErrorCode::out_of_memory, {"all 1 sequences"}, [&] { manager.open(on(1, true)); });
    expect_error(ErrorCode::out_of_memory, {"all 1 sequences"}, [&] { manager.open(on(0)); });
    advance(manager, rebuilt, std::vector<std::uint32_t>(20, 1));  // all of its context
    manager.close(rebuilt);
  }
  advance(manager, id, {1, 2});
  const SequenceId rebuilt = manager.open(on(1, true));
  advance(manager, rebuilt, {1, 2});
  manager.replace(id, rebuilt);
  EXPECT_FALSE(manager.is_open(rebuilt));
  EXPECT_TRUE(manager.is_open(id));
  manager.close(id);
  EXPECT_FALSE(manager.is_open(id));
  EXPECT_EQ(used(manager), Used{});
}

TEST_F(HostCopyTest, VersionsOlderThanTheCopyAreForgotten) {
  HostCopy copy(manager.geometry(), kBudget.context_tokens, host, false);
  advance(manager, id, {1, 2});
  advance(manager, id, {3});
  copy.take(manager, id);
  copy.finish();
  const VersionInfo newest = manager.versions(id).back();
  const SequenceId rebuilt = copy.restore(manager, on(1, true), 3);
  expect_error(ErrorCode::mismatch, {"no version of 2 tokens"}, [&] { manager.replace(id, rebuilt); });
  EXPECT_EQ(manager.versions(id).size(), 2u);
  const std::vector<LayerState> before = export_all(manager, id);
  manager.replace(id, rebuilt, StateManager::Older::forgotten);
  EXPECT_EQ(manager.versions(id), std::vector<VersionInfo>{newest});
  EXPECT_EQ(export_all(manager, id), before);
  advance(manager, id, {4});
  EXPECT_EQ(manager.versions(id).back().number, newest.number + 1);
}

}  // namespace
}  // namespace tandem::testing
