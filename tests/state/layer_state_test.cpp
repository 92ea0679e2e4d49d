#include "state/layer_state.hpp"

#include <cstring>

#include "tests/state/state_fixture.hpp"

namespace tandem::testing {
namespace {

class LayerStateTest : public StateTest {};

TEST_F(LayerStateTest, RecurrentStateIsTheBytesOfTheSlot) {
  const SequenceId id = open_on(0);
  StateStep step = manager.begin(id, 1);
  auto* recurrent = static_cast<float*>(step.recurrent_out(1, 0).data);
  auto* conv = static_cast<float*>(step.conv_out(1, 0).data);
  for (int i = 0; i < 30; ++i) recurrent[i] = static_cast<float>(i);
  for (int i = 0; i < 21; ++i) conv[i] = static_cast<float>(-i);
  step.commit();
  const LayerState state = export_layer(manager, id, 1);
  EXPECT_EQ(state.kind, LayerKind::recurrent);
  EXPECT_EQ(state.tokens, 1);
  ASSERT_EQ(state.piece("recurrent").size(), 30 * sizeof(float));
  ASSERT_EQ(state.piece("conv").size(), 21 * sizeof(float));
  EXPECT_EQ(std::memcmp(state.piece("recurrent").data(), recurrent, state.piece("recurrent").size()), 0);
  EXPECT_EQ(std::memcmp(state.piece("conv").data(), conv, state.piece("conv").size()), 0);
}

TEST_F(LayerStateTest, KeysAndValuesComeOutContiguous) {
  const SequenceId id = open_on(1);
  StateStep step = manager.begin(id, 6);
  for (int kv = 0; kv < 2; ++kv) {
    for (int head = 0; head < 2; ++head) {
      for (int token = 0; token < 6; ++token) {
        auto* page = static_cast<float*>(step.pages(4, 1)[token / 4]);
        for (int d = 0; d < 3; ++d) {
          page[((kv * 2 + head) * 4 + token % 4) * 3 + d] =
              static_cast<float>(1000 * kv + 100 * head + 10 * token + d);
        }
      }
    }
  }
  step.commit();
  const LayerState state = export_layer(manager, id, 4);
  EXPECT_EQ(state.kind, LayerKind::attention);
  EXPECT_EQ(state.tokens, 6);
  ASSERT_EQ(state.piece("keys").size(), 2 * 6 * 3 * sizeof(float));
  ASSERT_EQ(state.piece("values").size(), state.piece("keys").size());
  for (int i = 0; i < 2 * 6 * 3; ++i) {
    float key = 0;
    float value = 0;
    std::memcpy(&key, &state.piece("keys")[i * sizeof(float)], sizeof key);
    std::memcpy(&value, &state.piece("values")[i * sizeof(float)], sizeof value);
    const auto expected = static_cast<float>(100 * (i / 18) + 10 * (i / 3 % 6) + i % 3);
    EXPECT_EQ(key, expected) << i;
    EXPECT_EQ(value, expected + 1000) << i;
  }
}

TEST_F(LayerStateTest, OlderVersionsCanBeRead) {
  const SequenceId id = open_split();
  advance(manager, id, kThreeTokens);
  const auto three = export_all(manager, id);
  advance(manager, id, {4, 5});
  EXPECT_EQ(export_all(manager, id, 1), three);
  EXPECT_EQ(export_layer(manager, id, 2, 1).tokens, 3);
  expect_error(ErrorCode::not_found, {"version 7"}, [&] { export_layer(manager, id, 2, 7); });
}

TEST_F(LayerStateTest, ExportingUsesOneBackend) {
  const SequenceId id = open_split();
  advance(manager, id, kThreeTokens);
  export_layer(manager, id, 2);
  EXPECT_EQ(cpu.downloaded_bytes(), 0u);
  EXPECT_EQ(gpu.downloaded_bytes(), 192u);
  export_layer(manager, id, 0);
  EXPECT_EQ(cpu.downloaded_bytes(), 120u + 84u);
}

TEST(Checksum, IsXxh3Of128Bits) {
  EXPECT_EQ(to_string(checksum(LayerState{})),
            "99aa06d3014798d86001c324468d497f");  // XXH3_128bits of nothing
  LayerState state;
  for (char c : {'a', 'b', 'c'}) state.bytes.push_back(static_cast<std::byte>(c));
  EXPECT_EQ(to_string(checksum(state)), "06b05ab6733a618578af5f94892f3950");  // of "abc"
}

TEST(Checksum, EveryByteOfEveryPieceCounts) {
  for (const LayerKind kind : {LayerKind::recurrent, LayerKind::attention}) {
    LayerState state{kind, 9, pieces_of(small_geometry(), kind), {}};
    state.bytes.assign(static_cast<std::size_t>(state.pieces.state_bytes(9)), std::byte{3});
    const Checksum original = checksum(state);
    EXPECT_EQ(checksum(state), original);
    for (std::byte& byte : state.bytes) {
      byte ^= std::byte{1};
      EXPECT_NE(checksum(state), original);
      byte ^= std::byte{1};
    }
  }
}

}  // namespace
}  // namespace tandem::testing
