#include <cmath>
#include <cstring>

#include "core/io/gguf_config.hpp"
#include "core/numerics.hpp"
#include "core/q4_quantizer.hpp"
#include "core/text/tokenizer.hpp"
#include "graph/model/convert.hpp"
#include "graph/model/gguf_model.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/model/synthetic.hpp"
#include "graph/model/tensor_names.hpp"
#include "graph/model/widen.hpp"
#include "tests/gguf/tiny_gguf.hpp"
#include "tests/io/io_test_support.hpp"

namespace tandem {
namespace {

using test::TinyGguf;

std::filesystem::path tiny_directory() { return test::data_folder("TANDEM_MODELS") / "tiny"; }

const Model& tiny() {
  static const std::shared_ptr<const Model> model = Model::open(tiny_directory());
  return *model;
}

GgufModelFile open(const test::GgufWriter& writer, const GgufGears& gears = {}) {
  const test::TempDir dir;
  return GgufModelFile(dir.write("m.gguf", writer.bytes()), gears);
}
GgufModelFile open(const TinyGguf& options) { return open(test::as_gguf(tiny(), options)); }

bool same_bits(const ConstTensor& a, const ConstTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         std::memcmp(a.data, b.data, static_cast<std::size_t>(a.bytes())) == 0;
}

void expect_same_weights(const Model& expected, const Model& found) {
  ASSERT_EQ(expected.graph().weights().size(), found.graph().weights().size());
  for (std::size_t i = 0; i < expected.graph().weights().size(); ++i) {
    const auto id = static_cast<WeightId>(i);
    EXPECT_TRUE(same_bits(expected.weight(id).on_host().view, found.weight(id).on_host().view))
        << expected.graph().weights()[i].name;
  }
  EXPECT_EQ(expected.fingerprint(), found.fingerprint());
}

TEST(GgufModel, OfBf16IsTheDirectorysModelInBits) {
  const GgufModelFile file = open(TinyGguf{});
  EXPECT_EQ(file.config(), tiny().config());
  EXPECT_EQ(file.notices(), std::vector<std::string>());
  expect_same_weights(tiny(), *file.open());
}

/// The shipped model with a head of its own, whose values are the embedding's times `factor`.
Model with_head(float factor) {
  ModelConfig config = tiny().config();
  config.tie_word_embeddings = false;
  const auto source = [&](const Weight& weight) -> HostTensor {
    const bool head = weight.name == "lm_head.weight";
    const HostTensor tensor =
        tiny().weight(weight_named(tiny().graph(), head ? "embed_tokens.weight" : weight.name)).on_host();
    if (!head) return tensor;
    const HostTensor wide = widen_to_f32(tensor.view);
    auto* values = const_cast<float*>(wide.view.row<float>(0));
    std::for_each(values, values + wide.view.shape.elements(), [&](float& value) { value *= factor; });
    return round_to_bf16(wide.view);
  };
  return Model(config, build_model_graph(config), source);
}

TEST(GgufModel, AHeadThatDiffersIsUsedAndAnEqualOneIsTied) {
  const Model other = with_head(-1), same = with_head(1);
  const GgufModelFile with_other = open(test::as_gguf(other, {}));
  EXPECT_FALSE(with_other.config().tie_word_embeddings);
  expect_same_weights(other, *with_other.open());
  for (const std::uint32_t type : {test::kGgmlBf16, test::kGgmlF32}) {
    const GgufModelFile with_same = open(test::as_gguf(same, {.matrix_type = type}));
    EXPECT_TRUE(with_same.config().tie_word_embeddings);
    EXPECT_EQ(with_same.notices(), std::vector<std::string>());
    expect_same_weights(*open(TinyGguf{.matrix_type = type}).open(), *with_same.open());
  }
  const GgufModelFile quantised = open(test::as_gguf(same, {.matrix_type = test::kGgmlQ8_0}));
  EXPECT_FALSE(quantised.config().tie_word_embeddings);
}

TEST(GgufModel, LeavesInTheMappingWhatNeedsNoChange) {
  const GgufModelFile file = open(TinyGguf{});
  const HostTensor up = file.weights().load("layers.0.mlp.up_proj.weight", false);
  EXPECT_EQ(up.view.data, static_cast<const void*>(file.file().data("blk.0.ffn_up.weight").data()));
  const HostTensor z = file.weights().load("layers.0.linear_attn.in_proj_z.weight", false);
  EXPECT_NE(z.view.data, static_cast<const void*>(file.file().data("blk.0.attn_gate.weight").data()));
  std::int64_t tensors = 0;
  for (const GgufModelFile::Use& use : file.uses()) {
    tensors += use.tensors;
    EXPECT_NE(use.form, GgufForm::dequantised) << use.type;
  }
  EXPECT_EQ(tensors, static_cast<std::int64_t>(file.graph().weights().size()));
}

/// The same model with f32 matrices.
std::shared_ptr<const Model> widened() {
  const auto source = [&](const Weight& weight) -> WeightData {
    return widen_to_f32(tiny().weight(weight_named(tiny().graph(), weight.name)).on_host().view);
  };
  Graph graph = build_model_graph(tiny().config(), [](const Weight&) { return Gear::f32; });
  return std::make_shared<const Model>(tiny().config(), std::move(graph), source);
}

TEST(GgufModel, OfF32IsTheModelOfThoseValuesInBits) {
  expect_same_weights(*widened(), *open(TinyGguf{.matrix_type = test::kGgmlF32}).open());
}

/// Blocks move whole, so that quantising and reordering can change places.
TEST(GgufModel, OfQ4_0HasTheBlocksOfTheQuantisedMatrix) {
  const test::GgufWriter writer = test::small_gguf({.matrix_type = test::kGgmlQ4_0});
  const GgufModelFile file = open(writer);
  const std::shared_ptr<const Model> original = test::small_model(),
                                     dequantised = open(writer, {Gears::parse("f32")}).open();
  for (std::size_t i = 0; i < original->graph().weights().size(); ++i) {
    const Weight& weight = original->graph().weights()[i];
    if (weight.kind != WeightKind::matrix) continue;
    const auto id = static_cast<WeightId>(i);
    const HostTensor expected = quantize_q4(original->weight(id).on_host().view);
    EXPECT_TRUE(same_bits(expected.view, file.weights().load(weight.name, true).view)) << weight.name;
    EXPECT_EQ(file.weights().stored(weight.name, true).form, GgufForm::repacked);
    std::vector<float> row(static_cast<std::size_t>(weight.shape[1]));
    dequantize_q4_row(expected.view, 1, row.data());
    EXPECT_EQ(std::memcmp(row.data(), dequantised->weight(id).view.row<float>(1), row.size() * sizeof(float)),
              0)
        << weight.name;
  }
}

TEST(GgufModel, SizesAreThoseOfTheOpenedModel) {
  for (const std::uint32_t type : {test::kGgmlBf16, test::kGgmlF32, test::kGgmlQ4_0}) {
    const GgufModelFile file = open(test::small_gguf({.matrix_type = type}));
    EXPECT_EQ(file.sizes(), weight_sizes(*file.open()));
  }
  for (const char* gears : {"f32", "bf16", "q4q8", "mlp=f32"}) {
    const GgufModelFile file =
        open(test::small_gguf({.matrix_type = test::kGgmlQ4_0}), {Gears::parse(gears)});
    EXPECT_EQ(file.sizes(), weight_sizes(*file.open())) << gears;
  }
}

Gear gear_of(const Graph& graph, std::string_view name) {
  return graph.weight(weight_named(graph, name)).gear;
}

TEST(GgufModel, ProjectionsAreInTheGearOfTheirType) {
  constexpr const char* kUp = "layers.0.mlp.up_proj.weight";
  EXPECT_EQ(gear_of(open(test::small_gguf({.matrix_type = test::kGgmlQ4_0})).graph(), kUp), Gear::q4);
  EXPECT_EQ(gear_of(open(test::small_gguf({.matrix_type = test::kGgmlBf16})).graph(), kUp), Gear::bf16);
  EXPECT_EQ(gear_of(open(test::small_gguf({.matrix_type = test::kGgmlF32})).graph(), kUp), Gear::f32);
  const GgufModelFile q4q8 =
      open(test::small_gguf({.matrix_type = test::kGgmlQ4_0}), {Gears::parse("mlp=q4q8")});
  EXPECT_EQ(gear_of(q4q8.graph(), kUp), Gear::q4q8);
  EXPECT_TRUE(q4q8.open()->conversions().empty()) << "Q4_0 is only repacked";
}

TEST(GgufModel, OtherQuantisedTypesAreQuantisedAgainWhenThatIsAskedFor) {
  const test::GgufWriter writer = test::small_gguf({.matrix_type = test::kGgmlQ8_0});
  EXPECT_EQ(gear_of(open(writer).graph(), "layers.0.mlp.up_proj.weight"), Gear::f32);
  const GgufModelFile file = open(writer, {Gears(), true});
  EXPECT_EQ(gear_of(file.graph(), "layers.0.mlp.up_proj.weight"), Gear::q4);
  bool reported = false;
  for (const GgufModelFile::Use& use : file.uses()) reported |= use.form == GgufForm::requantised;
  EXPECT_TRUE(reported);
  EXPECT_FALSE(file.open()->conversions().empty());
}

/// Heads of 16 columns are no whole blocks: their columns can only be moved as f32.
TEST(GgufModel, DequantisesWhereAHeadIsNoWholeBlocks) {
  ModelConfig config = test::small_model()->config();
  config.num_hidden_layers = 1;
  config.layer_types.resize(1);
  config.linear_value_head_dim = 16;
  config.linear_num_value_heads = 4;
  Graph graph = build_model_graph(config);
  const auto source = [&](const Weight& weight) { return synthetic_weight({}, config, weight); };
  const Model model(config, graph, source);
  const GgufModelFile file = open(test::as_gguf(model, {.matrix_type = test::kGgmlQ4_0, .tokenizer = false}));
  const std::string out = "layers.0.linear_attn.out_proj.weight";
  EXPECT_EQ(file.weights().stored(out, true).form, GgufForm::dequantised);
  EXPECT_EQ(file.weights().stored("layers.0.linear_attn.in_proj_z.weight", true).form, GgufForm::repacked);
  const GgufModelFile exact =
      open(test::as_gguf(model, {.matrix_type = test::kGgmlBf16, .tokenizer = false}));
  EXPECT_EQ(exact.weights().stored(out, true).form, GgufForm::reordered);
  const HostTensor found = file.weights().load(out, true), wanted = exact.weights().load(out, true);
  // The blocks have two heads of the tiled order each, so the values are near, at their places and no other.
  for (std::int64_t row = 0; row < found.view.rows(); ++row) {
    for (std::int64_t c = 0; c < found.view.shape[1]; ++c) {
      EXPECT_NEAR(found.view.row<float>(row)[c], num::widen(wanted.view.row<bf16>(row)[c]), 0.05)
          << row << " " << c;
    }
  }
}

TEST(GgufModel, LogarithmsAreBf16WhereTheDecayCameFromOne) {
  const std::int64_t heads = tiny().config().linear_num_value_heads;
  const std::vector<float> logs = {0.0f, -3.125f, 2.78125f, 0.001235f, 1.2345678f, -6.5f};
  ASSERT_EQ(static_cast<std::int64_t>(logs.size()), heads);
  std::string bytes;
  for (const float log : logs) bytes += test::raw(-static_cast<float>(std::exp(static_cast<double>(log))));
  const auto change = [&](const std::string& tensor, std::string old) {
    return tensor == "blk.0.ssm_a" ? bytes : std::move(old);
  };
  const HostTensor found =
      open(TinyGguf{.change = change}).weights().load("layers.0.linear_attn.A_log", false);
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t tiled = head % 3 * 2 + head / 3;
    const float log = logs[static_cast<std::size_t>(tiled)], value = found.view.row<float>(0)[head];
    const bool is_bf16 = num::widen(round_to_bf16(log)) == log;
    EXPECT_NEAR(value, log, is_bf16 ? 0 : 2e-7);
  }
}

TEST(GgufModel, NormsGiveTheStoredFactorAgain) {
  const auto change = [](const std::string& tensor, std::string old) {
    if (tensor != "output_norm.weight") return old;
    std::string bytes;
    for (int i = 0; i < 192; ++i) bytes += test::raw(1.0f + (static_cast<float>(i) - 90) * 0.0371f);
    return bytes;
  };
  const GgufModelFile file = open(TinyGguf{.change = change});
  const auto* stored = reinterpret_cast<const float*>(file.file().data("output_norm.weight").data());
  const HostTensor norm = file.weights().load("norm.weight", false);
  for (int i = 0; i < 192; ++i) EXPECT_EQ(1.0f + norm.view.row<float>(0)[i], stored[i]);
}

TEST(GgufModel, SkipsLayersOfMultiTokenPrediction) {
  test::GgufWriter writer = test::as_gguf(tiny(), {.extra_layers = 1});
  writer.tensor("blk.8.attn_norm.weight", test::kGgmlF32, {192}, std::string(768, '\0'));
  writer.tensor("blk.8.nextn.eh_proj.weight", 250, {4}, "abcd");
  writer.tensor("rope_freqs.weight", test::kGgmlF32, {1}, "abcd");
  const GgufModelFile file = open(writer);
  EXPECT_EQ(file.config(), tiny().config());
  expect_same_weights(tiny(), *file.open());
  EXPECT_EQ(file.notices(),
            (std::vector<std::string>{"2 tensors of 1 layers for multi-token prediction are not used",
                                      "1 more tensors are not used, 'rope_freqs.weight' the first"}));
}

TEST(GgufModel, TheTokenizerIsThatOfTokenizerJson) {
  const test::TempDir dir;
  const GgufFile file(dir.write("m.gguf", test::as_gguf(tiny(), {}).bytes()));
  const Tokenizer found = Tokenizer::from_gguf(file),
                  expected = Tokenizer::load(tiny_directory() / "tokenizer.json");
  ASSERT_EQ(found.vocab_size(), expected.vocab_size());
  for (TokenId id = 0; id < expected.vocab_size(); ++id) {
    ASSERT_EQ(found.contains(id), expected.contains(id)) << id;
    if (!expected.contains(id)) continue;
    EXPECT_EQ(found.token_bytes(id), expected.token_bytes(id)) << id;
    EXPECT_EQ(found.is_special(id), expected.is_special(id)) << id;
  }
  EXPECT_EQ(found.id_of("<|im_end|>"), expected.id_of("<|im_end|>"));
  const std::string text =
      "<|im_start|>It\u0301 is a truth, don't 1234 you?\n\n  \u0915\u094d\u0937 <|endoftext|>";
  EXPECT_EQ(found.encode(text), expected.encode(text));
  EXPECT_EQ(found.encode(text, false), expected.encode(text, false));
}

}  // namespace
}  // namespace tandem
