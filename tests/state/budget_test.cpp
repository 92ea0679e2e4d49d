#include "core/random.hpp"
#include "tests/state/state_fixture.hpp"

namespace tandem::testing {
namespace {

class BudgetTest : public StateTest {};

TEST_F(BudgetTest, ThePoolsAreAllocatedOnce) {
  const int allocations = cpu.allocations() + gpu.allocations();
  EXPECT_EQ(allocations, 4);
  const StateUsage usage = manager.usage()[0];
  EXPECT_EQ(usage.backend, "cpu");
  EXPECT_EQ(usage.slots_total, 3 * 3 * 4);
  EXPECT_EQ(usage.pages_total, 2 * 3 * 5);
  EXPECT_EQ(usage.reserved_bytes, (1 + 36) * 256 + 30 * 192);
  EXPECT_EQ(cpu.allocated_bytes(), static_cast<std::uint64_t>(usage.reserved_bytes));
  EXPECT_EQ(usage.used_bytes, 0);
  const SequenceId id = open_on(0);
  for (int i = 0; i < 5; ++i) advance(manager, id, kThreeTokens);
  EXPECT_EQ(manager.usage()[0].used_bytes, 9 * 256 + 8 * 192);
  EXPECT_EQ(cpu.allocations() + gpu.allocations(), allocations);
}

TEST_F(BudgetTest, FullIsExactlyFull) {
  std::vector<SequenceId> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(open_on(0));
  for (const SequenceId id : ids) {
    for (int i = 0; i < 19; ++i) advance(manager, id, {1});
  }
  std::vector<StateStep> steps;
  for (const SequenceId id : ids) steps.push_back(manager.begin(id, 1));
  const StateUsage usage = manager.usage()[0];
  EXPECT_EQ(usage.slots_used, usage.slots_total);
  EXPECT_EQ(usage.pages_used, usage.pages_total);
  for (StateStep& step : steps) step.commit();
}

// The hardest case of the proof in budget.hpp: everything is shared, then everything is written.
TEST_F(BudgetTest, ForksOfAFullSequenceNeedNoMoreThanTheirShare) {
  const SequenceId first = open_on(0);
  for (int i = 0; i < 19; ++i) advance(manager, first, {1});
  const std::vector<SequenceId> ids{first, manager.fork(first), manager.fork(first)};
  std::uint32_t token = 2;
  for (int round = 0; round < 3; ++round) {
    std::vector<StateStep> steps;
    for (const SequenceId id : ids) {
      steps.push_back(manager.begin(id, 1));
      compute(manager, steps.back(), {++token});
    }
    if (round == 1) continue;  // abort all
    for (StateStep& step : steps) step.commit();
    for (const SequenceId id : ids) manager.rollback(id, manager.versions(id).front().number);
  }
  EXPECT_LE(used(manager).slots, manager.usage()[0].slots_total);
  for (const SequenceId id : ids) manager.close(id);
  EXPECT_EQ(used(manager), Used{});
}

TEST_F(BudgetTest, NothingLeaksInTenThousandCycles) {
  const CounterRandom random("state budget cycles", 1);
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const auto choose = [&](std::uint64_t what, std::uint64_t n) { return random.bits(8 * i + what) % n; };
    const SequenceId a = choose(0, 2) ? open_split() : open_on(static_cast<int>(choose(1, 2)));
    manager.begin(a, static_cast<std::int64_t>(1 + choose(2, 7))).commit();
    const SequenceId b = manager.fork(a);
    { StateStep dropped = manager.begin(b, static_cast<std::int64_t>(1 + choose(3, 9))); }
    manager.begin(b, static_cast<std::int64_t>(1 + choose(4, 9))).commit();
    manager.begin(a, static_cast<std::int64_t>(1 + choose(5, 4))).commit();
    manager.rollback(b, manager.versions(b)[choose(6, 2)].number);
    if (choose(7, 2)) manager.reset(a);
    manager.close(choose(7, 4) < 2 ? a : b);
    manager.close(choose(7, 4) < 2 ? b : a);
    ASSERT_EQ(used(manager), Used{}) << i;
  }
  for (const StateUsage& usage : manager.usage()) EXPECT_EQ(usage.used_bytes, 0);
}

}  // namespace
}  // namespace tandem::testing
