#include "graph/model/gear.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/io/geometries.hpp"
#include "core/q4_quantizer.hpp"
#include "graph/model/convert.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/model/synthetic.hpp"
#include "graph/model/tensor_names.hpp"
#include "graph/model/weight_sizes.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/properties/model_runs.hpp"

namespace tandem {
namespace {

constexpr Part kGroups[] = {Part::gdn, Part::attention, Part::mlp, Part::head};

TEST(Gears, NothingAskedForIsNothing) {
  const Gears gears;
  EXPECT_TRUE(gears.empty());
  EXPECT_EQ(gears.to_text(), "");
  EXPECT_EQ(gears.of(0, Part::mlp), std::nullopt);
  EXPECT_NO_THROW(gears.require_layers(1));
}

TEST(Gears, OneWordIsForEverything) {
  for (const Gear gear : {Gear::f32, Gear::bf16, Gear::q4, Gear::q4q8}) {
    const Gears gears = Gears::parse(name(gear));
    for (const Part group : kGroups) EXPECT_EQ(gears.of(group == Part::head ? kNoLayer : 7, group), gear);
    EXPECT_EQ(gears.to_text(), name(gear));
  }
}

TEST(Gears, WhatNamesMoreWinsWhereverItStands) {
  const Gears gears = Gears::parse("layer.3.mlp=bf16,layer.2-3=f32,mlp=q4,q4q8,head=bf16");
  EXPECT_EQ(gears.of(3, Part::mlp), Gear::bf16);
  EXPECT_EQ(gears.of(3, Part::gdn), Gear::f32);
  EXPECT_EQ(gears.of(2, Part::mlp), Gear::f32);
  EXPECT_EQ(gears.of(1, Part::mlp), Gear::q4);
  EXPECT_EQ(gears.of(1, Part::attention), Gear::q4q8);
  EXPECT_EQ(gears.of(kNoLayer, Part::head), Gear::bf16);
}

TEST(Gears, OfRulesThatNameAsMuchTheLaterWins) {
  EXPECT_EQ(Gears::parse("q4,bf16").of(0, Part::gdn), Gear::bf16);
  const Gears gears = Gears::parse("layer.0-7=q4,layer.4=f32,layer.4-9.gdn=q4,layer.5.gdn=q4q8");
  EXPECT_EQ(gears.of(3, Part::mlp), Gear::q4);
  EXPECT_EQ(gears.of(4, Part::mlp), Gear::f32);
  EXPECT_EQ(gears.of(4, Part::gdn), Gear::q4);
  EXPECT_EQ(gears.of(5, Part::gdn), Gear::q4q8);
  EXPECT_EQ(gears.of(8, Part::mlp), std::nullopt);
  EXPECT_EQ(gears.of(kNoLayer, Part::head), std::nullopt) << "the head is in no layer";
}

TEST(Gears, TheirTextGivesThemAgain) {
  for (const char* text :
       {"q4q8", "gdn=q4,mlp=q4q8,head=bf16,layer.3=f32", "layer.0-15=q4,layer.3.mlp=f32"}) {
    EXPECT_EQ(Gears::parse(text).to_text(), text);
  }
  EXPECT_EQ(Gears::parse("layer.3-3=q4").to_text(), "layer.3=q4");
}

TEST(Gears, EveryMistakeIsRefusedWithItsRule) {
  for (const char* rule : {"",
                           "q5",
                           "Q4",
                           "q4q8 ",
                           "mlp",
                           "mlp=",
                           "mlp=q4=q4",
                           "=q4",
                           "embedding=q4",
                           "conv=q4",
                           "layer=q4",
                           "layer.=q4",
                           "layer.x=q4",
                           "layer.3-1=q4",
                           "layer.-1=q4",
                           "layer.3.=q4",
                           "layer.3.embedding=q4",
                           "layer.3.mlp.up=q4",
                           "mlp.3=q4",
                           "layer.99999999999=q4"}) {
    const std::string quoted = fmt::format("gear '{}': expected f32, bf16, q4 or q4q8", rule);
    expect_error(ErrorCode::invalid_argument, quoted.c_str(), [&] { Gears::parse(rule); });
    expect_error(ErrorCode::invalid_argument, quoted.c_str(),
                 [&] { Gears::parse(std::string("q4,") + rule); });
  }
  expect_error(ErrorCode::invalid_argument, "gear 'layer.3.head=q4': the head is in no layer; write head=q4",
               [] { Gears::parse("layer.3.head=q4"); });
  expect_error(ErrorCode::invalid_argument, "gear 'layer.2-8=q4': layer 8 of a model of 8 layers (0 to 7)",
               [] { Gears::parse("f32,layer.2-8=q4").require_layers(8); });
  EXPECT_NO_THROW(Gears::parse("layer.2-7=q4").require_layers(8));
}

Graph graph_in(const ModelConfig& config, const char* gears) {
  return build_model_graph(config, gears_of(Gears::parse(gears), published_gear));
}

/// Names of the weights whose elements the operators take from 4 bits.
std::vector<std::string> names_in(const Graph& graph, Gear gear) {
  std::vector<std::string> names;
  for (const Weight& weight : graph.weights()) {
    if (weight.kind == WeightKind::matrix && weight.gear == gear) names.push_back(weight.name);
  }
  return names;
}

TEST(Gears, ReachTheBigProjectionsAndNothingElse) {
  ModelConfig config = published_geometry("27B");
  config.num_hidden_layers = 4;
  config.layer_types = interleaved_layers(4, 4);
  const Graph graph = graph_in(config, "q4");
  EXPECT_EQ(names_in(graph, Gear::q4).size(), 3u * 3 + 4 + 4 * 3 + 1);
  for (const std::string& name : names_in(graph, Gear::bf16)) {
    EXPECT_TRUE(name.ends_with("in_proj_a.weight") || name.ends_with("in_proj_b.weight") ||
                name == "embed_tokens.weight")
        << name;
  }
  const std::vector<std::string> mixers = names_in(graph_in(config, "gdn=q4q8"), Gear::q4q8);
  EXPECT_EQ(mixers.size(), 9u);
  for (const std::string& name : mixers) EXPECT_NE(name.find("linear_attn."), std::string::npos) << name;
  EXPECT_EQ(names_in(graph_in(config, "layer.3.gdn=q4"), Gear::q4).size(), 0u)
      << "layer 3 has attention: a gear for a group that it has not is nobody's";
  EXPECT_EQ(names_in(graph_in(config, "layer.3.attention=q4"), Gear::q4).size(), 4u);
}

TEST(Gears, ATiedHeadInAnotherGearIsAWeightOfItsOwn) {
  const ModelConfig config = published_geometry("0.8B");
  ASSERT_TRUE(config.tie_word_embeddings);
  const std::vector<std::string> own{"lm_head.weight"};
  EXPECT_EQ(names_in(graph_in(config, "head=q4"), Gear::q4), own);
  EXPECT_EQ(names_in(graph_in(config, "head=f32"), Gear::f32), own);
  const Graph tied = graph_in(config, "head=bf16");
  EXPECT_EQ(tied.nodes().front().weights, tied.nodes().back().weights);
}

TEST(Gears, WhatCannotBeIn4BitsIsRefusedByName) {
  ModelConfig config = published_geometry("0.8B");
  config.intermediate_size = 40;
  expect_error(ErrorCode::mismatch,
               "weight 'layers.0.mlp.down_proj.weight' is [1024, 40]: 4 bits want a multiple of 32 columns",
               [&] { graph_in(config, "mlp=q4"); });
  EXPECT_NO_THROW(graph_in(config, "q4,mlp=bf16"));
  expect_error(ErrorCode::invalid_argument, "weight 'embed_tokens.weight' cannot be in 4 bits",
               [&] { build_model_graph(config, [](const Weight&) { return Gear::q4; }); });
}

std::shared_ptr<const Model> tiny_in(const char* gears) { return open_tiny(Gears::parse(gears)); }

const WeightData& weight_of(const Model& model, std::string_view name) {
  return model.weight(weight_named(model.graph(), name));
}

TEST(GearedModel, IsWhatTheQuantiserMakesOfTheStoredWeights) {
  const auto model = tiny_in("mlp=q4,head=q4q8");
  const Graph& graph = model->graph();
  EXPECT_EQ(model->conversions().size(), 8u * 3 + 1);
  for (const Conversion& conversion : model->conversions()) {
    const Weight& weight = graph.weight(conversion.weight);
    const bool head = weight.name == "lm_head.weight";
    const ConstTensor stored = weight_of(*tiny_model(), head ? "embed_tokens.weight" : weight.name).view;
    const HostTensor expected = quantize_q4(stored);
    const ConstTensor& found = model->weight(conversion.weight).view;
    ASSERT_EQ(found.dtype, DType::q4);
    EXPECT_EQ(std::memcmp(expected.view.data, found.data, static_cast<std::size_t>(found.bytes())), 0)
        << weight.name;
    EXPECT_EQ(conversion.from, DType::bf16);
    EXPECT_EQ(conversion.bytes_before, stored.bytes());
    EXPECT_EQ(conversion.bytes_after, stored.shape.elements() * 18 / 32);
    const double rms = std::sqrt(conversion.error.squared_error / conversion.error.squared_values);
    EXPECT_GT(rms, 0.02) << weight.name;
    EXPECT_LT(rms, 0.15) << weight.name;
  }
  EXPECT_EQ(weight_sizes(*model), weight_sizes(graph, ModelFiles(tiny_directory())));
  EXPECT_EQ(weight_of(*model, "embed_tokens.weight").view.dtype, DType::bf16);
}

TEST(GearedModel, WidensExactlyAndLeavesWhatIsInItsGear) {
  const std::string name = "layers.0.mlp.up_proj.weight";
  const ConstTensor stored = weight_of(*tiny_model(), name).view;
  const auto wide = tiny_in("f32");
  const ConstTensor& found = weight_of(*wide, name).view;
  ASSERT_EQ(found.dtype, DType::f32);
  for (std::int64_t i = 0; i < stored.shape.elements(); ++i) {
    ASSERT_EQ(found.row<float>(0)[i], num::widen(stored.row<bf16>(0)[i])) << i;
  }
  EXPECT_EQ(wide->weight_bytes() - tiny_model()->weight_bytes(),
            std::accumulate(wide->conversions().begin(), wide->conversions().end(), std::int64_t{0},
                            [](std::int64_t sum, const Conversion& c) { return sum + c.bytes_before; }) +
                weight_of(*wide, "lm_head.weight").view.bytes() / 2)
      << "the head is no longer the embedding's matrix";
  const auto as_stored = tiny_in("bf16");
  EXPECT_TRUE(as_stored->conversions().empty());
  EXPECT_EQ(as_stored->fingerprint(), tiny_model()->fingerprint());
}

TEST(GearedModel, FingerprintsTellGearsApart) {
  std::vector<std::string> all;
  for (const char* gears : {"bf16", "q4", "q4q8", "f32", "mlp=q4", "mlp=q4q8", "head=q4", "layer.3.mlp=q4"}) {
    all.push_back(tiny_in(gears)->fingerprint());
    EXPECT_EQ(tiny_in(gears)->fingerprint(), all.back()) << gears;
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

TEST(RoundToBf16, IsToNearestEvenAndKeepsNaN) {
  const float values[] = {1.0f,       0x1.01p0f, 0x1.03p0f,   0x1.010002p0f,
                          -0x1.03p0f, INFINITY,  0x1.ffp127f, -0.0f};
  const std::uint32_t expected[] = {0x3f80, 0x3f80, 0x3f82, 0x3f81, 0xbf82, 0x7f80, 0x7f80, 0x8000};
  const HostTensor rounded = round_to_bf16(ConstTensor(values, DType::f32, Shape{8}));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(rounded.view.row<bf16>(i)->bits, expected[i]) << i;
  for (const std::uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xffffffffu, 0x7fc00000u}) {
    const float nan = num::float_of(bits);
    const HostTensor kept = round_to_bf16(ConstTensor(&nan, DType::f32, Shape{1}));
    EXPECT_TRUE(std::isnan(num::widen(*kept.view.row<bf16>(0)))) << bits;
  }
}

TEST(GearedModel, FourBitsNeverBecomeSomethingElse) {
  Weight weight{"w", 0, WeightKind::matrix, Shape{2, 32}, Gear::f32, Part::mlp};
  const float values[64] = {1, 2, 3};
  const HostTensor stored = quantize_q4(ConstTensor(values, DType::f32, weight.shape));
  WeightConverter converter;
  for (const Gear gear : {Gear::f32, Gear::bf16}) {
    weight.gear = gear;
    expect_error(ErrorCode::mismatch, "tensor 'w' is stored in 4 bits and was asked for in",
                 [&] { converter.convert(weight, stored); });
  }
  for (const Gear gear : {Gear::q4, Gear::q4q8}) {
    weight.gear = gear;
    EXPECT_EQ(converter.convert(weight, stored).view.data, stored.view.data) << "in place";
  }
}

TEST(GearedModel, ValuesThat4BitsCannotHoldAreRefusedByName) {
  const Weight weight{
      "layers.0.mlp.up_proj.weight", 0, WeightKind::matrix, Shape{3, 32}, Gear::q4, Part::mlp};
  float values[96] = {};
  values[70] = NAN;
  WeightConverter converter;
  expect_error(ErrorCode::invalid_argument,
               "tensor 'layers.0.mlp.up_proj.weight' in 4 bits: row 2, column 6 is nan", [&] {
                 converter.convert(weight, HostTensor{ConstTensor(values, DType::f32, weight.shape), {}});
               });
}

TEST(SyntheticGears, AreMadeIn4BitsAtOnce) {
  const SyntheticSpec spec = parse_synthetic_spec("0.8B:layers=4,vocab=512");
  const auto model = make_synthetic_model(spec, Gears::parse("q4q8,head=q4,layer.0.mlp=f32"));
  EXPECT_TRUE(model->conversions().empty());
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < model->graph().weights().size(); ++i) {
    const Weight& weight = model->graph().weights()[i];
    const WeightData& data = model->weight(static_cast<WeightId>(i));
    if (weight.kind == WeightKind::vector) continue;
    EXPECT_TRUE(data.random.has_value());
    EXPECT_EQ(data.view.dtype, weight_dtype(weight.gear)) << weight.name;
    EXPECT_EQ(weight_sizes(*model)[i].bytes, data.view.bytes());
    bytes += data.view.bytes();
  }
  EXPECT_LT(bytes, make_synthetic_model(spec)->weight_bytes());
  EXPECT_EQ(weight_of(*model, "layers.1.mlp.up_proj.weight").view.bytes(), 3584 * 1024 * 18 / 32);
}

TEST(SyntheticGears, ReadGivesTheBytesThatABackendMakes) {
  const auto model = make_synthetic_model(parse_synthetic_spec("0.8B:layers=1,vocab=48"), Gears::parse("q4"));
  const WeightData& head = weight_of(*model, "lm_head.weight");
  const HostTensor made = head.on_host();
  std::vector<std::byte> bytes(static_cast<std::size_t>(head.view.bytes()));
  head.read(0, head.view.bytes(), bytes.data());
  EXPECT_EQ(std::memcmp(bytes.data(), made.view.data, bytes.size()), 0);
  std::byte some[7];
  const std::int64_t middle = head.view.shape.elements() / 2 - 3;  // the last levels and the first scales
  head.read(middle, middle + 7, some);
  EXPECT_EQ(std::memcmp(some, bytes.data() + middle, sizeof some), 0);
}

}  // namespace
}  // namespace tandem
