#include <cstring>
#include <set>

#include "state/page_pool.hpp"
#include "state/slot_pool.hpp"
#include "tests/state/state_fixture.hpp"

namespace tandem::testing {
namespace {

TEST(BlockPool, GivesEachBlockOnceAndTakesItBack) {
  FakeBackend cpu("cpu");
  BlockPool pool(cpu, "things", 3, 64);
  EXPECT_EQ(pool.total(), 3);
  std::vector<BlockRef> refs;
  std::set<void*> addresses;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(pool.used(), i);
    refs.push_back(pool.acquire());
    addresses.insert(refs.back().data());
  }
  EXPECT_EQ(addresses.size(), 3u);
  expect_error(ErrorCode::out_of_memory, {"things on cpu", "all 3 are in use"}, [&] { pool.acquire(); });
  EXPECT_EQ(pool.used(), 3);
  void* middle = refs[1].data();
  refs.erase(refs.begin() + 1);
  EXPECT_EQ(pool.used(), 2);
  EXPECT_EQ(pool.acquire().data(), middle);
  refs.clear();
  EXPECT_EQ(pool.used(), 0);
  EXPECT_EQ(cpu.allocations(), 1);
}

TEST(BlockPool, TheLastReferenceGivesBack) {
  FakeBackend cpu("cpu");
  BlockPool pool(cpu, "things", 2, 64);
  BlockRef first = pool.acquire();
  EXPECT_FALSE(first.shared());
  BlockRef second = first;
  EXPECT_TRUE(first.shared());
  EXPECT_EQ(second.data(), first.data());
  BlockRef third = std::move(second);
  EXPECT_FALSE(second);
  first = BlockRef();
  EXPECT_FALSE(third.shared());
  EXPECT_EQ(pool.used(), 1);
  third = pool.acquire();
  EXPECT_EQ(pool.used(), 1);
  BlockRef& self = third;
  third = self;
  EXPECT_EQ(pool.used(), 1);
  third = {};
  EXPECT_EQ(pool.used(), 0);
}

TEST(BlockPool, NoBlocksTakeNoMemory) {
  FakeBackend cpu("cpu");
  BlockPool pool(cpu, "things", 0, 64);
  EXPECT_EQ(cpu.allocations(), 0);
  EXPECT_EQ(pool.reserved_bytes(), 0);
  expect_error(ErrorCode::out_of_memory, {"all 0"}, [&] { pool.acquire(); });
}

TEST(SlotPool, ZeroSlotIsZeroAndNeverGivenAway) {
  FakeBackend cpu("cpu");
  const StateGeometry geometry = small_geometry();
  SlotPool pool(cpu, geometry, 3);
  EXPECT_EQ(pool.total(), 2);
  EXPECT_EQ(pool.used(), 0);
  EXPECT_EQ(cpu.uploaded_bytes(), static_cast<std::uint64_t>(geometry.slot_bytes()));
  const auto* bytes = static_cast<const unsigned char*>(pool.zero().data());
  for (std::int64_t i = 0; i < geometry.slot_bytes(); ++i) ASSERT_EQ(bytes[i], 0) << i;
  const BlockRef a = pool.acquire();
  const BlockRef b = pool.acquire();
  EXPECT_NE(a.index(), 0);
  EXPECT_NE(b.index(), 0);
  expect_error(ErrorCode::out_of_memory, {"state slots on cpu"}, [&] { pool.acquire(); });
}

TEST(SlotPool, ViewsHaveShapesAndDoNotOverlap) {
  FakeBackend cpu("cpu");
  const StateGeometry geometry = small_geometry();
  SlotPool pool(cpu, geometry, 2);
  const BlockRef slot = pool.acquire();
  const LayerPieces pieces = pieces_of(geometry, LayerKind::recurrent);
  const Tensor recurrent = pieces.tensor("recurrent", slot.data());
  const Tensor conv = pieces.tensor("conv", slot.data());
  EXPECT_EQ(recurrent.shape, (Shape{2, 3, 5}));
  EXPECT_EQ(conv.shape, (Shape{3, 7}));
  EXPECT_EQ(static_cast<char*>(conv.data) - static_cast<char*>(recurrent.data), 128);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(recurrent.data) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(conv.data) % 64, 0u);
}

TEST(SlotPool, OffsetsPast2To31Elements) {
  FakeBackend cpu("cpu", DType::f32, std::uint64_t{1} << 40, FakeBackend::Memory::addresses);
  const StateGeometry geometry = geometry_27b();
  SlotPool pool(cpu, geometry, 20'000);
  std::vector<BlockRef> slots;
  for (int i = 1; i < 20'000; ++i) slots.push_back(pool.acquire());
  const LayerPieces pieces = pieces_of(geometry, LayerKind::recurrent);
  const auto base = reinterpret_cast<std::uintptr_t>(pool.zero().data());
  for (const BlockRef& slot : slots) {
    const auto expected = base + static_cast<std::uintptr_t>(slot.index()) * 3'268'608u;
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(pieces.tensor("recurrent", slot.data()).data), expected);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(pieces.tensor("conv", slot.data()).data),
              expected + 3'145'728u);
  }
  EXPECT_GT((reinterpret_cast<std::uintptr_t>(slots.back().data()) - base) / sizeof(float),
            std::uintptr_t{1} << 31);
}

TEST(PagePool, CopyMakesPagesEqual) {
  FakeBackend cpu("cpu");
  PagePool pool(cpu, small_geometry(), 2);
  const BlockRef from = pool.acquire();
  const BlockRef to = pool.acquire();
  const auto bytes = static_cast<std::size_t>(small_geometry().page_bytes());
  for (std::size_t i = 0; i < bytes; ++i)
    static_cast<unsigned char*>(from.data())[i] = static_cast<unsigned char>(i);
  pool.copy(to, from);
  EXPECT_EQ(std::memcmp(to.data(), from.data(), bytes), 0);
  EXPECT_EQ(cpu.copies(), 1);
}

TEST(PageList, FollowsItsPages) {
  FakeBackend cpu("cpu");
  PagePool pool(cpu, small_geometry(), 4);
  PageList list;
  for (int i = 0; i < 3; ++i) list.append(pool.acquire());
  const PageList copy = list;
  EXPECT_EQ(pool.used(), 3);
  list.replace(1, pool.acquire());
  EXPECT_EQ(pool.used(), 4);
  EXPECT_NE(list.data()[1], copy.data()[1]);
  EXPECT_EQ(list.data()[1], list[1].data());
  EXPECT_TRUE(list[0].shared());
  list.truncate(1);
  EXPECT_EQ(list.size(), 1);
  EXPECT_EQ(list.data().size(), 1u);
  EXPECT_EQ(pool.used(), 3);
}

}  // namespace
}  // namespace tandem::testing
