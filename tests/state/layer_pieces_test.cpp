#include "state/layer_pieces.hpp"

#include <cstring>
#include <numeric>

#include "state/layer_state.hpp"
#include "tests/state/state_fixture.hpp"

/// The list of what a layer keeps, and the walks that go by it: over the lists of Qwen3.5 and over that of a
/// family that nobody has built, whose layers keep two pieces of fixed size and two that grow.
namespace tandem::testing {
namespace {

constexpr std::int64_t kTokens = 10;  // two full pages and a half

LayerPieces made_up_pieces() {
  return {{{"ssm", Storage::slot, Shape{3, 2, 5}, 3},
           {"latent", Storage::pages, Shape{5}, 1},
           {"shift", Storage::slot, Shape{4}, 1},
           {"position_keys", Storage::pages, Shape{2, 3}, 2}},
          DType::f32,
          4};
}

/// A slot and three pages of 48 numbers each, for one version of such a layer.
struct MadeUpLayer {
  explicit MadeUpLayer(float fill) : memory(backend.allocate(4 * 48 * sizeof(float))) {
    std::fill_n(block(0), 4 * 48, fill);
  }
  float* block(std::int64_t i) const { return static_cast<float*>(memory.data()) + i * 48; }
  float* page(std::int64_t i) const { return block(1 + i); }
  LayerView view(const LayerPieces& pieces) {
    return {.pieces = &pieces, .backend = &backend, .tokens = kTokens, .slot = block(0), .pages = pages};
  }

  FakeBackend backend{"cpu"};
  Buffer memory;
  std::vector<void*> pages{page(0), page(1), page(2)};
};

std::vector<float> numbers(std::int64_t count) {
  std::vector<float> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 1.0F);
  return all;
}

TEST(LayerPieces, ListsOfQwen) {
  const StateGeometry geometry = small_geometry();
  const LayerPieces recurrent = pieces_of(geometry, LayerKind::recurrent);
  ASSERT_EQ(recurrent.list.size(), 2u);
  EXPECT_EQ(recurrent.list[0], (StatePiece{"recurrent", Storage::slot, Shape{2, 3, 5}, 2}));
  EXPECT_EQ(recurrent.list[1], (StatePiece{"conv", Storage::slot, Shape{3, 7}, 1}));
  const LayerPieces attention = pieces_of(geometry, LayerKind::attention);
  ASSERT_EQ(attention.list.size(), 2u);
  EXPECT_EQ(attention.list[0], (StatePiece{"keys", Storage::pages, Shape{2, 3}, 2}));
  EXPECT_EQ(attention.list[1], (StatePiece{"values", Storage::pages, Shape{2, 3}, 2}));
  EXPECT_EQ(attention.page_tokens, 4);
  EXPECT_EQ(attention.slot_bytes(), 0);
  EXPECT_EQ(recurrent.page_bytes(), 0);
  const std::vector<LayerPieces> layers = pieces_of(geometry);
  ASSERT_EQ(layers.size(), 5u);
  EXPECT_EQ(layers[1], recurrent);
  EXPECT_EQ(layers[2], attention);
  expect_error(ErrorCode::not_found, {"shift"}, [&] { static_cast<void>(recurrent.find("shift")); });
}

TEST(LayerPieces, SizesOfAMadeUpFamily) {
  const LayerPieces pieces = made_up_pieces();
  EXPECT_EQ(pieces.slot_bytes(), 128 + 64);
  EXPECT_EQ(pieces.slot_offset(pieces.find("shift")), 128);
  EXPECT_EQ(pieces.page_bytes(), 4 * (5 + 6) * 4);
  EXPECT_EQ(pieces.page_stride(), 192);
  EXPECT_EQ(pieces.state_bytes(kTokens), 4 * (30 + 4 + kTokens * (5 + 6)));
  EXPECT_EQ(pieces.offset_of(pieces.find("position_keys"), kTokens), 4 * (30 + kTokens * 5 + 4));
}

TEST(LayerPieces, TheWalkGoesOverPiecesOfTheSlotThenPages) {
  const LayerPieces pieces = made_up_pieces();
  MadeUpLayer layer(0);
  std::vector<StateRun> runs;
  for_each_run(layer.view(pieces), [&](const StateRun& run) { runs.push_back(run); });
  ASSERT_EQ(runs.size(), 2u + 3u);
  EXPECT_EQ(runs[0].piece->name, "ssm");
  EXPECT_EQ(runs[1].piece->name, "shift");
  EXPECT_EQ(runs[1].data, layer.block(0) + 32);
  EXPECT_EQ(runs[1].bytes, 16);
  for (std::size_t page = 0; page < 3; ++page) {
    EXPECT_EQ(runs[2 + page].piece, nullptr);
    EXPECT_EQ(runs[2 + page].page, static_cast<std::int64_t>(page));
    EXPECT_EQ(runs[2 + page].data, layer.pages[page]);
    EXPECT_EQ(runs[2 + page].bytes, 176);
  }
}

TEST(LayerPieces, AMadeUpFamilyGoesOutAndInAgain) {
  const LayerPieces pieces = made_up_pieces();
  MadeUpLayer layer(-1);
  const std::vector<float> state = numbers(pieces.state_bytes(kTokens) / 4);
  const auto bytes = std::as_bytes(std::span(state));
  import_layer(layer.view(pieces), bytes);
  // Where each element must be, counted by hand: [ssm 30][latent 10 x 5][shift 4][position_keys 2 x 10 x 3].
  EXPECT_EQ(layer.block(0)[29], 30);
  EXPECT_EQ(layer.block(0)[30], -1) << "what pads the slot is not written";
  EXPECT_EQ(layer.block(0)[32 + 3], 30 + 50 + 4);
  for (std::int64_t token = 0; token < kTokens; ++token) {
    const float* page = layer.page(token / 4);
    const std::int64_t row = token % 4;
    EXPECT_EQ(page[row * 5 + 2], static_cast<float>(30 + token * 5 + 3));
    for (std::int64_t head = 0; head < 2; ++head) {
      EXPECT_EQ(page[20 + head * 12 + row * 3 + 1],
                static_cast<float>(84 + (head * kTokens + token) * 3 + 2));
    }
  }
  EXPECT_EQ(layer.page(2)[2 * 5], 0) << "a position that no token has";
  EXPECT_EQ(layer.page(2)[44], -1) << "what pads a page is not written";

  const LayerState out = export_layer(layer.view(pieces));
  EXPECT_TRUE(std::ranges::equal(out.bytes, bytes));
  EXPECT_TRUE(std::ranges::equal(out.piece("shift"), bytes.subspan(4 * 80, 4 * 4)));
  EXPECT_TRUE(out.piece("conv").empty());
}

/// Of two pools, for a sequence with two kept versions of such a layer.
TEST(LayerPieces, BlocksOfALayerWithSlotsAndPagesChangePlace) {
  FakeBackend backend("cpu");
  BlockPool here(backend, "blocks", 5, 192), there(backend, "blocks", 5, 192);
  Sequence sequence;
  sequence.home = {0};
  sequence.versions = {{{.number = 0, .tokens = 4}, {here.acquire()}},
                       {{.number = 1, .tokens = kTokens}, {here.acquire()}}};
  sequence.pages.resize(1);
  for (int page = 0; page < 3; ++page) sequence.pages[0].append(here.acquire());

  std::vector<std::int64_t> walked;
  LayerBlocks blocks = sequence.map_blocks(0, [&](const BlockRef& block, Storage storage) {
    walked.push_back(block.index());
    EXPECT_EQ(storage, walked.size() <= 2 ? Storage::slot : Storage::pages);
    return there.acquire();
  });
  EXPECT_THAT(walked, ::testing::ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(here.used(), 5);
  sequence.put_blocks(0, 1, std::move(blocks));
  EXPECT_EQ(here.used(), 0);
  EXPECT_EQ(there.used(), 5);
  EXPECT_EQ(sequence.home[0], 1);
  EXPECT_EQ(sequence.versions[1].slots[0].index(), 1);
  EXPECT_EQ(sequence.pages[0][2].index(), 4);
}

}  // namespace
}  // namespace tandem::testing
