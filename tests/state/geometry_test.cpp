#include "state/geometry.hpp"

#include "state/budget.hpp"
#include "tests/state/state_fixture.hpp"

namespace tandem::testing {
namespace {

TEST(StateGeometry, Sizes27B) {
  const StateGeometry geometry = geometry_27b();
  EXPECT_EQ(geometry.count(LayerKind::recurrent), 48);
  EXPECT_EQ(geometry.count(LayerKind::attention), 16);
  EXPECT_EQ(48 * geometry.recurrent_bytes(), 150'994'944);
  EXPECT_EQ(48 * geometry.conv_bytes(), 5'898'240);
  EXPECT_EQ(geometry.slot_bytes(), 3'145'728 + 122'880);
  EXPECT_EQ(geometry.page_bytes(), 2 * 4 * 32 * 256 * 4);
  EXPECT_EQ(geometry.sequence_bytes(0), 150'994'944 + 5'898'240);
  EXPECT_EQ(geometry.sequence_bytes(33), 150'994'944 + 5'898'240 + 16 * 2 * 262'144);
}

TEST(StateGeometry, PartsAreAligned) {
  const StateGeometry geometry = small_geometry();
  EXPECT_EQ(geometry.recurrent_bytes(), 2 * 3 * 5 * 4);
  EXPECT_EQ(geometry.conv_offset(), 128);
  EXPECT_EQ(geometry.conv_bytes(), 3 * 7 * 4);
  EXPECT_EQ(geometry.slot_bytes(), 256);
  EXPECT_EQ(geometry.page_bytes(), 2 * 2 * 4 * 3 * 4);
  EXPECT_EQ(geometry.page_stride(), 192);
}

TEST(StateGeometry, DoublesTakeTwiceTheBytes) {
  StateGeometry geometry = geometry_27b();
  const std::int64_t single = geometry.sequence_bytes(100);
  geometry.real = DType::f64;
  EXPECT_EQ(geometry.sequence_bytes(100), 2 * single);
}

TEST(StateGeometry, PagesRoundUp) {
  const StateGeometry geometry = small_geometry();
  EXPECT_EQ(geometry.pages_for(0), 0);
  EXPECT_EQ(geometry.pages_for(1), 1);
  EXPECT_EQ(geometry.pages_for(4), 1);
  EXPECT_EQ(geometry.pages_for(5), 2);
  EXPECT_EQ(geometry.pages_for(INT64_MAX), INT64_MAX / 4 + 1);
}

TEST(StateGeometry, OverflowIsAnError) {
  StateGeometry geometry = geometry_27b();
  geometry.recurrent.value_heads = std::int64_t{1} << 47;
  expect_error(ErrorCode::invalid_argument, {"recurrent state bytes"}, [&] { geometry.recurrent_bytes(); });
  geometry = geometry_27b();
  geometry.kv.head_dim = std::int64_t{1} << 55;
  expect_error(ErrorCode::invalid_argument, {"page bytes"}, [&] { geometry.page_bytes(); });
  expect_error(ErrorCode::invalid_argument, {"sequence bytes"},
               [] { geometry_27b().sequence_bytes(std::int64_t{1} << 60); });
  geometry = geometry_27b();
  geometry.recurrent.conv_channels = INT64_MAX / 12;
  expect_error(ErrorCode::invalid_argument, {"state bytes"}, [&] { geometry.slot_bytes(); });
}

TEST(StateGeometry, ValidateNamesTheField) {
  const auto rejects = [](const char* field, auto&& change) {
    StateGeometry geometry = small_geometry();
    change(geometry);
    expect_error(ErrorCode::invalid_argument, {"state geometry", field}, [&] { validate(geometry); });
  };
  validate(small_geometry());
  rejects("no layers", [](StateGeometry& g) { g.layers.clear(); });
  rejects("real is bf16", [](StateGeometry& g) { g.real = DType::bf16; });
  rejects("value_heads is 0", [](StateGeometry& g) { g.recurrent.value_heads = 0; });
  rejects("key_dim is -1", [](StateGeometry& g) { g.recurrent.key_dim = -1; });
  rejects("value_dim", [](StateGeometry& g) { g.recurrent.value_dim = 0; });
  rejects("conv_channels", [](StateGeometry& g) { g.recurrent.conv_channels = 0; });
  rejects("conv_kernel is 1, expected at least 2", [](StateGeometry& g) { g.recurrent.conv_kernel = 1; });
  rejects("kv_heads", [](StateGeometry& g) { g.kv.kv_heads = 0; });
  rejects("head_dim", [](StateGeometry& g) { g.kv.head_dim = 0; });
  rejects("page_tokens", [](StateGeometry& g) { g.kv.page_tokens = 0; });
}

TEST(StateGeometry, DimensionsOfAbsentKindsAreNotLookedAt) {
  StateGeometry geometry = small_geometry();
  geometry.layers = {LayerKind::attention};
  geometry.recurrent = {};
  validate(geometry);
  EXPECT_EQ(geometry.sequence_bytes(4), 192);
  geometry = small_geometry();
  geometry.layers = {LayerKind::recurrent};
  geometry.kv = {.page_tokens = 0};
  validate(geometry);
  EXPECT_EQ(geometry.sequence_bytes(4), 256);
}

TEST(StateBudget, PoolSizesFollowTheRule) {
  const StateBudget budget{.sequences = 5, .context_tokens = 1000, .kept_versions = 3};
  const PoolSizes sizes = pool_sizes(geometry_27b(), {.recurrent = 40, .kv = 10}, budget);
  EXPECT_EQ(sizes.slots, 1 + 40 * 5 * 4);
  EXPECT_EQ(sizes.pages, 10 * 5 * 32);
  EXPECT_EQ(sizes.bytes, sizes.slots * 3'268'608 + sizes.pages * 262'144);
}

TEST(StateBudget, NothingWhereNothingMayLive) {
  const PoolSizes sizes = pool_sizes(geometry_27b(), {}, {.context_tokens = 1000});
  EXPECT_EQ(sizes.slots, 0);
  EXPECT_EQ(sizes.pages, 0);
  EXPECT_EQ(sizes.bytes, 0);
}

TEST(StateBudget, NonsenseIsAnError) {
  const auto rejects = [](const char* word, LayerCapacity capacity, StateBudget budget) {
    expect_error(ErrorCode::invalid_argument, {word},
                 [&] { pool_sizes(small_geometry(), capacity, budget); });
  };
  const StateBudget good{.context_tokens = 10};
  rejects("sequences is 0", {3, 2}, {.sequences = 0, .context_tokens = 10});
  rejects("context_tokens is 0", {3, 2}, {.context_tokens = 0});
  rejects("kept_versions is 0", {3, 2}, {.context_tokens = 10, .kept_versions = 0});
  rejects("room for 4 recurrent layers on a backend, expected 0 to 3", {4, 2}, good);
  rejects("room for -1 kv", {3, -1}, good);
  rejects("slots", {3, 2}, {.sequences = INT64_MAX / 2, .context_tokens = 10, .kept_versions = 2});
  rejects("slots", {3, 2}, {.context_tokens = 10, .kept_versions = INT64_MAX});
  rejects("pages", {0, 2}, {.sequences = std::int64_t{1} << 40, .context_tokens = std::int64_t{1} << 30});
}

}  // namespace
}  // namespace tandem::testing
