#include "state/snapshot_diff.hpp"

#include <cmath>
#include <functional>

#include "tests/state/snapshot_fixture.hpp"

namespace tandem::testing {
namespace {

class SnapshotDiffTest : public SnapshotTest {
 protected:
  /// A file of `tokens` tokens whose elements count upwards within each layer, after a change.
  Snapshot make(const std::string& name, std::int64_t tokens,
                const std::function<void(std::vector<std::vector<float>>&)>& change = {}) {
    std::vector<std::vector<float>> layers;
    for (const LayerKind kind : small_geometry().layers) {
      std::vector<float>& layer = layers.emplace_back(layer_state_bytes(small_geometry(), kind, tokens) / 4);
      for (std::size_t i = 0; i < layer.size(); ++i) layer[i] = static_cast<float>(i);
    }
    if (change) change(layers);
    std::vector<std::span<const std::byte>> bytes;
    for (const auto& layer : layers) bytes.push_back(std::as_bytes(std::span(layer)));
    const SequenceId id = import_state(manager, on({0, 0, 0, 0, 0}), tokens, bytes);
    save_snapshot(path(name), manager, id, kModel, ids(static_cast<int>(tokens)));
    manager.close(id);
    return Snapshot::open(path(name));
  }
};

TEST_F(SnapshotDiffTest, NothingDiffersFromItself) {
  const Snapshot a = make("a", 6);
  const SnapshotDifference found = compare(a, a);
  EXPECT_FALSE(found.any());
  ASSERT_EQ(found.layers.size(), 5u);
  EXPECT_EQ(found.layers[0].parts[0].part, "recurrent");
  EXPECT_EQ(found.layers[0].parts[0].heads.size(), 2u);
  EXPECT_EQ(found.layers[0].parts[0].total().elements, 2 * 3 * 5);
  EXPECT_EQ(found.layers[0].parts[1].total().elements, 3 * 7);
  EXPECT_EQ(found.layers[2].parts[0].total().elements, 2 * 6 * 3);
}

TEST_F(SnapshotDiffTest, EveryDifferenceIsCountedWhereItIs) {
  const Snapshot a = make("a", 6), b = make("b", 6, [](auto&layers) {
                                     layers[1][0] += 0.5f;  // value head 0
                                     layers[1][17] = -2;    // value head 1
                                     layers[1][18] += 1;
                                     layers[3][30 + 4] += 0.25f;  // the convolution
                                     layers[4][18 + 2] += 3;      // keys of kv head 1
                                     layers[4][36 + 5] = NAN;     // values of kv head 0
                                   });
  const SnapshotDifference found = compare(a, b);
  EXPECT_TRUE(found.any());
  EXPECT_EQ(found.contract, "");
  EXPECT_FALSE(found.first_id);
  const auto expect = [&](int layer, int part, int head, std::int64_t different, double largest) {
    const ElementDifference& at = found.layers[layer].parts[part].heads[head];
    EXPECT_EQ(at.different, different) << layer << " " << part << " " << head;
    EXPECT_EQ(at.largest, largest) << layer << " " << part << " " << head;
  };
  EXPECT_FALSE(found.layers[0].any());
  EXPECT_FALSE(found.layers[2].any());
  expect(1, 0, 0, 1, 0.5);
  expect(1, 0, 1, 2, 19);
  expect(1, 1, 0, 0, 0);
  expect(3, 0, 0, 0, 0);
  expect(3, 1, 0, 1, 0.25);
  expect(4, 0, 0, 0, 0);
  expect(4, 0, 1, 1, 3);
  expect(4, 1, 0, 1, INFINITY);
  expect(4, 1, 1, 0, 0);
  EXPECT_EQ(found.layers[1].parts[0].total().different, 3);
}

TEST_F(SnapshotDiffTest, KeysAreComparedAtThePositionsThatBothHave) {
  const SequenceId id = open_on(0);
  advance(manager, id, step(4));
  save_snapshot(path("a"), manager, id, kModel, ids(4));
  advance(manager, id, {104, 105, 106});
  save_snapshot(path("b"), manager, id, kModel, ids(7), kSampling);
  const SnapshotDifference found = compare(Snapshot::open(path("a")), Snapshot::open(path("b")));
  EXPECT_EQ(found.contract, "tokens: expected 4, found 7");
  EXPECT_EQ(found.first_id, 4);
  EXPECT_TRUE(found.sampling);
  EXPECT_TRUE(found.layers[0].any());
  for (const int layer : {2, 4}) {
    EXPECT_FALSE(found.layers[layer].any());
    EXPECT_EQ(found.layers[layer].parts[1].total().elements, 2 * 4 * 3);
  }
}

TEST_F(SnapshotDiffTest, OtherGeometriesCannotBeCompared) {
  const Snapshot a = make("a", 6);
  StateGeometry geometry = small_geometry();
  std::swap(geometry.kv.kv_heads, geometry.kv.head_dim);
  StateManager other(geometry, {&gpu}, {all_layers(geometry)}, kBudget);
  save_snapshot(path("b"), other, other.open(on({0, 0, 0, 0, 0})), kModel, {});
  const Snapshot b = Snapshot::open(path("b"));
  expect_error(ErrorCode::mismatch, {"/a'", "/b'", "cannot be compared", "kv_heads: expected 2, found 3"},
               [&] { compare(a, b); });
}

}  // namespace
}  // namespace tandem::testing
