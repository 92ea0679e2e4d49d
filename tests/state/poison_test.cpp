#include <algorithm>

#include "backends/faulty/faulty_backend.hpp"
#include "tests/state/state_fixture.hpp"

/// Free slots and pages that read as NaN.
namespace tandem::testing {
namespace {

class PoisonTest : public ::testing::Test {
 protected:
  static constexpr StateBudget kBudget{
      .sequences = 2, .context_tokens = 20, .kept_versions = 2, .poison = true};

  SequenceId open() { return manager.open({Residency::uniform, std::vector<int>(5, 0)}); }

  static bool is_poison(const void* data, std::int64_t bytes) {
    const auto* first = static_cast<const std::uint8_t*>(data);
    return std::all_of(first, first + bytes, [](std::uint8_t byte) { return byte == 0xFF; });
  }
  bool is_poison(const LayerView& view) const {
    if (view.kind == LayerKind::recurrent)
      return is_poison(view.piece("recurrent").data, view.piece("recurrent").bytes()) &&
             is_poison(view.piece("conv").data, view.piece("conv").bytes());
    return std::all_of(view.pages.begin(), view.pages.end(),
                       [&](const void* page) { return is_poison(page, manager.geometry().page_stride()); });
  }

  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  FakeBackend* memory = new FakeBackend("cpu");
  std::unique_ptr<Backend> cpu = make_faulty_backend(std::unique_ptr<Backend>(memory), faults);
  StateManager manager{small_geometry(), {cpu.get()}, {all_layers(small_geometry())}, kBudget};
};

TEST_F(PoisonTest, WhatIsFreedReadsAsNaNAndTheRestStays) {
  const SequenceId id = open();
  advance(manager, id, kThreeTokens);
  const SequenceId twin = manager.fork(id);
  advance(manager, twin, {4, 5, 6});
  const std::vector<LayerState> kept = export_all(manager, id);
  std::vector<LayerView> stale;
  std::vector<std::vector<void*>> pages;  // the lists themselves go with the sequence
  for (int layer = 0; layer < 5; ++layer) {
    stale.push_back(manager.view(twin, layer));
    pages.emplace_back(stale.back().pages.begin(), stale.back().pages.end());
    stale.back().pages = pages.back();
    EXPECT_FALSE(is_poison(stale.back()));
  }
  manager.close(twin);
  for (const LayerView& view : stale) EXPECT_TRUE(is_poison(view));
  EXPECT_EQ(export_all(manager, id), kept);
  for (int layer = 0; layer < 5; ++layer) EXPECT_FALSE(is_poison(manager.view(id, layer)));
}

TEST_F(PoisonTest, FreshOnesAreNaNBeforeTheirFirstUseAndAfterAnAbort) {
  const SequenceId id = open();
  void *slot = nullptr, *page = nullptr;
  {
    const StateStep step = manager.begin(id, 3);
    slot = step.recurrent_out(0, 0).data;
    page = step.pages(2, 0)[0];
    EXPECT_TRUE(is_poison(slot, manager.geometry().slot_bytes()));
    EXPECT_TRUE(is_poison(page, manager.geometry().page_stride()));
    scribble(manager, step);
    EXPECT_FALSE(is_poison(slot, manager.geometry().slot_bytes()));
  }
  EXPECT_TRUE(is_poison(slot, manager.geometry().slot_bytes()));
  EXPECT_TRUE(is_poison(page, manager.geometry().page_stride()));
  for (const LayerState& layer : export_all(manager, id))
    EXPECT_TRUE(std::ranges::all_of(layer.piece("recurrent"), [](std::byte b) { return b == std::byte{0}; }));
}

TEST_F(PoisonTest, RollbackAndOldVersionsFreeTheirSlots) {
  const SequenceId id = open();
  advance(manager, id, {1});
  const LayerView oldest = manager.view(id, 0);
  advance(manager, id, {2});
  const LayerView rolled_back = manager.view(id, 1);
  manager.rollback(id, manager.versions(id)[0].number);
  EXPECT_TRUE(is_poison(rolled_back));
  EXPECT_FALSE(is_poison(oldest));
  advance(manager, id, {2});
  advance(manager, id, {3});  // two versions are kept
  EXPECT_TRUE(is_poison(oldest));
}

TEST_F(PoisonTest, ALostDeviceDoesNotKeepASequenceFromBeingClosed) {
  const SequenceId id = open();
  advance(manager, id, kThreeTokens);
  faults->arm("lost@1");
  EXPECT_THROW(cpu->synchronize(), Error);
  manager.close(id);
  EXPECT_EQ(used(manager), Used{});
}

}  // namespace
}  // namespace tandem::testing
