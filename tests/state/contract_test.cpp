#include "state/contract.hpp"

#include "tests/state/state_fixture.hpp"

namespace tandem::testing {
namespace {

class ContractTest : public StateTest {
 protected:
  StateContract sample() {
    const SequenceId id = open_on(0);
    advance(manager, id, kThreeTokens);
    const StateContract contract = make_contract(manager, id, "model-1");
    manager.close(id);
    return contract;
  }
};

TEST_F(ContractTest, DescribesTheSequence) {
  const StateContract contract = sample();
  EXPECT_EQ(contract.geometry, small_geometry());
  EXPECT_EQ(contract.tokens, 3);
  EXPECT_EQ(contract.model, "model-1");
  EXPECT_EQ(contract.head_order, "grouped");
  EXPECT_EQ(contract.layers.size(), 5u);
}

TEST_F(ContractTest, IsTheSameWhereverTheStateLives) {
  const SequenceId a = open_on(1);
  const SequenceId b = open_split();
  for (const SequenceId id : {a, b}) advance(manager, id, kThreeTokens);
  EXPECT_EQ(make_contract(manager, a, "m"), make_contract(manager, b, "m"));
  advance(manager, b, {1});
  EXPECT_FALSE(make_contract(manager, a, "m") == make_contract(manager, b, "m"));
}

TEST_F(ContractTest, TheFirstDifferenceIsNamed) {
  const StateContract expected = sample();
  EXPECT_EQ(difference(expected, expected), "");
  const auto differs = [&](const std::string& text, auto&& change) {
    StateContract found = expected;
    change(found);
    EXPECT_EQ(difference(expected, found), text);
    EXPECT_FALSE(found == expected);
  };
  differs("number of layers: expected 5, found 4", [](StateContract& c) { c.geometry.layers.pop_back(); });
  differs("kind of layer 4: expected kv, found recurrent",
          [](StateContract& c) { c.geometry.layers[4] = LayerKind::recurrent; });
  differs("value_heads: expected 2, found 3", [](StateContract& c) { c.geometry.recurrent.value_heads = 3; });
  differs("key_dim: expected 3, found 5",
          [](StateContract& c) { std::swap(c.geometry.recurrent.key_dim, c.geometry.recurrent.value_dim); });
  differs("value_dim: expected 5, found 6", [](StateContract& c) { c.geometry.recurrent.value_dim = 6; });
  differs("conv_channels: expected 7, found 8",
          [](StateContract& c) { c.geometry.recurrent.conv_channels = 8; });
  differs("conv_kernel: expected 4, found 3", [](StateContract& c) { c.geometry.recurrent.conv_kernel = 3; });
  differs("kv_heads: expected 2, found 1", [](StateContract& c) { c.geometry.kv.kv_heads = 1; });
  differs("head_dim: expected 3, found 4", [](StateContract& c) { c.geometry.kv.head_dim = 4; });
  differs("real: expected f32, found f64", [](StateContract& c) { c.geometry.real = DType::f64; });
  differs("recurrent_layout: expected value_heads,key_dim,value_dim, found value_heads,value_dim,key_dim",
          [](StateContract& c) { c.recurrent_layout = "value_heads,value_dim,key_dim"; });
  differs("conv_layout: expected conv_kernel-1,conv_channels, found x",
          [](StateContract& c) { c.conv_layout = "x"; });
  differs("kv_layout: expected kv_heads,tokens,head_dim, found x",
          [](StateContract& c) { c.kv_layout = "x"; });
  differs("head_order: expected grouped, found tiled", [](StateContract& c) { c.head_order = "tiled"; });
  differs("arithmetic version: expected 2, found 1", [](StateContract& c) { c.arithmetic = 1; });
  differs("model: expected model-1, found model-2", [](StateContract& c) { c.model = "model-2"; });
  differs("tokens: expected 3, found 4", [](StateContract& c) { c.tokens = 4, c.layers.clear(); });
  differs("number of checksums: expected 5, found 4", [](StateContract& c) { c.layers.pop_back(); });
  differs(
      "checksum of layer 3: expected " + to_string(expected.layers[3]) + ", found " + std::string(32, '0'),
      [](StateContract& c) { c.layers[3] = {}; });
}

TEST_F(ContractTest, PagesAreNotPartOfIt) {
  const StateContract expected = sample();
  StateContract found = expected;
  found.geometry.kv.page_tokens = 32;
  EXPECT_EQ(difference(expected, found), "");
  EXPECT_TRUE(found == expected);
}

TEST_F(ContractTest, RefusalIsAMismatch) {
  const StateContract expected = sample();
  StateContract found = expected;
  require_match(expected, found, "snapshot a.tds");
  found.head_order = "tiled";
  expect_error(ErrorCode::mismatch, {"snapshot a.tds", "head_order: expected grouped, found tiled"},
               [&] { require_match(expected, found, "snapshot a.tds"); });
}

}  // namespace
}  // namespace tandem::testing
