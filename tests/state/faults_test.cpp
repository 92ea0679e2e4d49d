#include "tests/state/state_fixture.hpp"

namespace tandem::testing {
namespace {

class FaultsTest : public StateTest {};

TEST_F(FaultsTest, AFailedConstructionLeavesNoMemory) {
  for (int failing = 0; failing < 4; ++failing) {
    FakeBackend a("a");
    FakeBackend b("b");
    (failing < 2 ? a : b).fail_allocation_after(failing % 2);
    expect_error(ErrorCode::out_of_memory, {failing < 2 ? "a: no" : "b: no"}, [&] {
      StateManager(small_geometry(), {&a, &b}, {{3, 2}, {3, 2}}, kBudget);
    });
    EXPECT_EQ(a.allocated_bytes() + b.allocated_bytes(), 0u);
    EXPECT_EQ(a.allocations() + b.allocations(), failing);
  }
}

TEST_F(FaultsTest, AFailedCopyInBeginChangesNothing) {
  const SequenceId id = open_split();
  advance(manager, id, kThreeTokens);
  const SequenceId twin = manager.fork(id);
  const auto before = export_all(manager, id);
  const auto versions = manager.versions(twin);
  const Used held = used(manager);
  for (FakeBackend* failing : {&cpu, &gpu}) {  // each has one of the two kv layers
    failing->fail_copy_after(0);
    expect_error(ErrorCode::device_lost, {"copy failed"}, [&] { manager.begin(twin, 9); });
    EXPECT_EQ(used(manager), held);
    EXPECT_EQ(manager.versions(twin), versions);
    EXPECT_EQ(export_all(manager, twin), before);
    EXPECT_EQ(manager.view(twin, 2).pages[0], manager.view(id, 2).pages[0]);
    EXPECT_EQ(manager.view(twin, 4).pages[0], manager.view(id, 4).pages[0]);
  }
  advance(manager, twin, {4, 5});
  EXPECT_EQ(manager.tokens(twin), 5);
  EXPECT_EQ(export_all(manager, id), before);
}

TEST_F(FaultsTest, TheSecondCopyOfOneBackendToo) {
  const SequenceId id = open_on(0);
  advance(manager, id, kThreeTokens);
  const SequenceId twin = manager.fork(id);
  const Used held = used(manager);
  for (int successes = 0; successes < 2; ++successes) {
    cpu.fail_copy_after(successes);
    expect_error(ErrorCode::device_lost, {"copy failed"}, [&] { manager.begin(twin, 1); });
    EXPECT_EQ(used(manager), held);
    EXPECT_EQ(export_all(manager, twin), export_all(manager, id));
  }
  cpu.fail_copy_after(2);
  advance(manager, twin, {4});
}

TEST_F(FaultsTest, ErrorsOfTheCallerDropTheStep) {
  const SequenceId id = open_split();
  advance(manager, id, kThreeTokens);
  const auto before = export_all(manager, id);
  expect_error(ErrorCode::not_resident, {"layer 1"}, [&] {
    StateStep step = manager.begin(id, 1);
    scribble(manager, step);
    step.recurrent_in(1, 0);
    step.commit();
  });
  EXPECT_EQ(export_all(manager, id), before);
  advance(manager, id, {4});
}

}  // namespace
}  // namespace tandem::testing
