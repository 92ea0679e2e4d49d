#include "tests/state/state_fixture.hpp"

namespace tandem::testing {
namespace {

class ForkTest : public StateTest {
 protected:
  int copies() const { return cpu.copies() + gpu.copies(); }
};

TEST_F(ForkTest, SharesEverythingAndCopiesNothing) {
  const SequenceId id = open_split();
  for (int i = 0; i < 3; ++i) advance(manager, id, kThreeTokens);
  const Used held = used(manager);
  const SequenceId twin = manager.fork(id);
  EXPECT_NE(twin, id);
  EXPECT_EQ(used(manager), held);
  EXPECT_EQ(copies(), 0);
  EXPECT_EQ(manager.versions(twin), manager.versions(id));
  EXPECT_EQ(manager.residency(twin), Residency::per_layer);
  for (const VersionInfo& version : manager.versions(id)) {
    EXPECT_EQ(export_all(manager, twin, version.number), export_all(manager, id, version.number));
  }
  EXPECT_EQ(manager.view(twin, 0).piece("recurrent").data, manager.view(id, 0).piece("recurrent").data);
  EXPECT_EQ(manager.view(twin, 2).pages[1], manager.view(id, 2).pages[1]);
}

TEST_F(ForkTest, BothGoTheirOwnWays) {
  const SequenceId straight = open_split();
  advance(manager, straight, kThreeTokens);
  advance(manager, straight, {4, 5, 6});
  const auto with_456 = export_all(manager, straight);
  manager.close(straight);

  const SequenceId a = open_split();
  advance(manager, a, kThreeTokens);
  const SequenceId b = manager.fork(a);
  advance(manager, b, {7, 8});
  const auto with_78 = export_all(manager, b);
  advance(manager, a, {4, 5, 6});
  EXPECT_EQ(export_all(manager, a), with_456);
  EXPECT_EQ(export_all(manager, b), with_78);
  manager.close(a);
  EXPECT_EQ(export_all(manager, b), with_78);
}

TEST_F(ForkTest, ThePartialPageIsCopiedByTheFirstToWriteAndNoOther) {
  const SequenceId a = open_on(0);
  advance(manager, a, {1, 2, 3, 4, 5});  // a full page and one token of another
  const SequenceId b = manager.fork(a);
  const auto before = export_all(manager, a);
  advance(manager, b, {6});
  EXPECT_EQ(cpu.copies(), 2);  // one per kv layer
  EXPECT_EQ(cpu.copied_bytes(), 2u * 192);
  EXPECT_EQ(manager.view(a, 2).pages[0], manager.view(b, 2).pages[0]);
  EXPECT_NE(manager.view(a, 2).pages[1], manager.view(b, 2).pages[1]);
  EXPECT_EQ(export_all(manager, a), before);
  advance(manager, a, {7});
  advance(manager, b, {8});
  EXPECT_EQ(cpu.copies(), 2);
}

TEST_F(ForkTest, FullPagesAreNeverCopied) {
  const SequenceId a = open_on(0);
  advance(manager, a, {1, 2, 3, 4});
  const SequenceId b = manager.fork(a);
  advance(manager, b, {5});
  advance(manager, a, {6});
  EXPECT_EQ(cpu.copies(), 0);
  EXPECT_EQ(used(manager).pages, 2 * 3);
}

TEST_F(ForkTest, RollbackIntoASharedFullPageCopiesIt) {
  const SequenceId a = open_on(0);
  advance(manager, a, {1, 2});
  advance(manager, a, {3, 4});
  const SequenceId b = manager.fork(a);
  const auto full = export_all(manager, a);
  manager.rollback(b, 1);
  EXPECT_EQ(cpu.copies(), 0);
  EXPECT_EQ(manager.view(a, 4).pages[0], manager.view(b, 4).pages[0]);
  advance(manager, b, {9, 9, 9});
  EXPECT_EQ(cpu.copies(), 2);
  EXPECT_EQ(export_all(manager, a), full);
  manager.rollback(b, 1);
  advance(manager, b, {3, 4});
  EXPECT_EQ(export_all(manager, b), full);
  EXPECT_EQ(cpu.copies(), 2);
}

TEST_F(ForkTest, AnAbortAfterACopyLeavesBothAsTheyWere) {
  const SequenceId a = open_on(0);
  advance(manager, a, kThreeTokens);
  const SequenceId b = manager.fork(a);
  const auto before = export_all(manager, a);
  scribble(manager, manager.begin(b, 6));
  EXPECT_EQ(cpu.copies(), 2);
  EXPECT_EQ(export_all(manager, a), before);
  EXPECT_EQ(export_all(manager, b), before);
  scribble(manager, manager.begin(b, 6));
  EXPECT_EQ(cpu.copies(), 2);
}

TEST_F(ForkTest, BothMayHaveAStepOpen) {
  const SequenceId a = open_on(0);
  advance(manager, a, kThreeTokens);
  const SequenceId b = manager.fork(a);
  StateStep step_a = manager.begin(a, 2);
  StateStep step_b = manager.begin(b, 2);
  compute(manager, step_a, {4, 5});
  compute(manager, step_b, {6, 7});
  step_b.commit();
  step_a.commit();
  const auto a_45 = export_all(manager, a);
  const auto b_67 = export_all(manager, b);
  manager.rollback(a, 1);
  manager.rollback(b, 1);
  advance(manager, a, {6, 7});
  advance(manager, b, {4, 5});
  EXPECT_EQ(export_all(manager, a), b_67);
  EXPECT_EQ(export_all(manager, b), a_45);
}

TEST_F(ForkTest, OldVersionsOutliveTheOriginal) {
  const SequenceId a = open_on(0);
  advance(manager, a, kThreeTokens);
  const auto three = export_all(manager, a);
  advance(manager, a, kThreeTokens);
  const SequenceId b = manager.fork(a);
  manager.close(a);
  const SequenceId stranger = open_on(0);
  advance(manager, stranger, {99, 98, 97, 96, 95});
  manager.rollback(b, 1);
  EXPECT_EQ(export_all(manager, b), three);
}

TEST_F(ForkTest, ResetOfOneLeavesTheOther) {
  const SequenceId a = open_on(0);
  advance(manager, a, kThreeTokens);
  const SequenceId b = manager.fork(a);
  const auto before = export_all(manager, a);
  manager.reset(b);
  advance(manager, b, {5, 5, 5, 5, 5});
  EXPECT_EQ(export_all(manager, a), before);
}

}  // namespace
}  // namespace tandem::testing
