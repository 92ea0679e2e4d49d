#include "core/io/geometries.hpp"

#include "tests/io/io_test_support.hpp"

namespace tandem {
namespace {

/// Elements of all weights, without vision and multi-token prediction: the independent sum over the tensor
/// shapes.
std::int64_t parameters(const ModelConfig& c) {
  const std::int64_t h = c.hidden_size;
  const std::int64_t linear = (c.conv_dim() + c.value_dim() + 2 * c.linear_num_value_heads) * h +
                              c.conv_dim() * c.linear_conv_kernel_dim + 2 * c.linear_num_value_heads +
                              c.linear_value_head_dim + h * c.value_dim();
  const std::int64_t full = (2 * c.q_dim() + 2 * c.kv_dim()) * h + h * c.q_dim() + 2 * c.head_dim;
  const std::int64_t every = 2 * h + 3 * h * c.intermediate_size;
  return c.vocab_size * h * (c.tie_word_embeddings ? 1 : 2) + h + c.num_hidden_layers * every +
         c.count(LayerKind::recurrent) * linear + c.count(LayerKind::attention) * full;
}

std::int64_t state_bytes(const ModelConfig& c) {
  return c.count(LayerKind::recurrent) * c.linear_num_value_heads * c.linear_key_head_dim *
         c.linear_value_head_dim * 4;
}

TEST(Geometries, AreListedSmallestFirst) {
  EXPECT_THAT(published_geometries(), testing::ElementsAre("0.8B", "2B", "4B", "9B", "27B"));
  for (const auto name : published_geometries()) {
    const ModelConfig config = published_geometry(name);
    EXPECT_EQ(config.layer_types.size(), static_cast<std::size_t>(config.num_hidden_layers)) << name;
    EXPECT_EQ(config.linear_num_value_heads % config.linear_num_key_heads, 0) << name;
    EXPECT_EQ(config.num_attention_heads % config.num_key_value_heads, 0) << name;
  }
}

TEST(Geometries, HaveThePublishedSizes) {
  // Billions of parameters, and MiB of recurrent state for a sequence.
  const std::tuple<const char*, double, std::int64_t> expected[] = {
      {"0.8B", 0.752, 18}, {"2B", 1.882, 18}, {"4B", 4.206, 48}, {"9B", 8.954, 48}, {"27B", 26.896, 144}};
  for (const auto& [name, billions, mebibytes] : expected) {
    const ModelConfig config = published_geometry(name);
    EXPECT_NEAR(static_cast<double>(parameters(config)) / 1e9, billions, 0.0005) << name;
    EXPECT_EQ(state_bytes(config), mebibytes << 20) << name;
  }
}

TEST(Geometries, TheLargestInDetail) {
  const ModelConfig config = published_geometry("27B");
  EXPECT_EQ(config.count(LayerKind::recurrent), 48);
  EXPECT_EQ(config.count(LayerKind::attention), 16);
  EXPECT_EQ(config.layer_types[3], LayerKind::attention);
  EXPECT_EQ(config.conv_dim(), 10240);
  EXPECT_EQ(config.value_dim(), 6144);
  EXPECT_EQ(config.q_dim(), 6144);
  EXPECT_EQ(config.kv_dim(), 1024);
  EXPECT_EQ(config.rotary_dim, 64);
  EXPECT_EQ(state_bytes(config), 150'994'944);
}

TEST(Geometries, RefuseOtherNames) {
  test::expect_error([] { published_geometry("13B"); }, ErrorCode::invalid_argument,
                     {"'13B'", "known are 0.8B, 2B, 4B, 9B, 27B"});
}

}  // namespace
}  // namespace tandem
