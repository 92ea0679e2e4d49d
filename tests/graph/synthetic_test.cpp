#include "graph/model/synthetic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "graph/model/tensor_names.hpp"
#include "graph/model/weight_sizes.hpp"
#include "graph/session/session.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/properties/model_runs.hpp"

namespace tandem {
namespace {

const WeightData& weight(const Model& model, const std::string& name) {
  return model.weight(weight_named(model.graph(), name));
}

TEST(SyntheticSpec, IsReadAndWritten) {
  const SyntheticSpec spec = parse_synthetic_spec("0.8B:seed=7,vocab=512,dtype=f32,layers=2");
  EXPECT_EQ(spec.geometry, "0.8B");
  EXPECT_EQ(spec.layers, 2);
  EXPECT_EQ(spec.vocab, 512);
  EXPECT_EQ(spec.dtype, DType::f32);
  EXPECT_EQ(spec.seed, 7u);
  EXPECT_EQ(to_text(spec), "0.8B:layers=2,vocab=512,dtype=f32,seed=7");
  EXPECT_EQ(to_text(parse_synthetic_spec("27B")), "27B");
  EXPECT_EQ(to_text(parse_synthetic_spec("27B:dtype=bf16,seed=0")), "27B");
}

TEST(SyntheticSpec, RefusesWhatHasNoMeaning) {
  const auto parse = [](const char* text) { return [text] { parse_synthetic_spec(text); }; };
  expect_error(ErrorCode::invalid_argument, "unknown geometry '28B': known are 0.8B, 2B, 4B, 9B, 27B",
               parse("28B:layers=1"));
  expect_error(ErrorCode::invalid_argument, "unknown geometry ''", parse(""));
  expect_error(ErrorCode::invalid_argument, "keys layers, vocab, dtype, seed, found ''", parse("27B:"));
  expect_error(ErrorCode::invalid_argument, "found 'layer=1'", parse("27B:layer=1"));
  expect_error(ErrorCode::invalid_argument, "found 'layers'", parse("27B:layers"));
  expect_error(ErrorCode::invalid_argument, "found ''", parse("27B:layers=1,"));
  expect_error(ErrorCode::invalid_argument, "seed is given twice", parse("27B:seed=1,seed=1"));
  expect_error(ErrorCode::invalid_argument, "layers: expected a whole number of 1 to 1024, found '0'",
               parse("27B:layers=0"));
  expect_error(ErrorCode::invalid_argument, "1 to 1024, found '1025'", parse("27B:layers=1025"));
  expect_error(ErrorCode::invalid_argument, "vocab: expected a whole number of 1 to 4194304, found '1x'",
               parse("27B:vocab=1x"));
  expect_error(ErrorCode::invalid_argument, "seed: expected a whole number of 0 to 18446744073709551615",
               parse("27B:seed=-1"));
  expect_error(ErrorCode::invalid_argument, "dtype: expected bf16 or f32, found 'f16'",
               parse("27B:dtype=f16"));
}

TEST(Synthetic, HasThePublishedConfigurationWithItsChanges) {
  const ModelConfig whole = synthetic_config(parse_synthetic_spec("27B"));
  EXPECT_EQ(whole.num_hidden_layers, 64);
  EXPECT_EQ(whole.vocab_size, 248320);
  EXPECT_EQ(whole.eos_token_ids.size(), 2u);
  const ModelConfig part = synthetic_config(parse_synthetic_spec("27B:layers=5,vocab=512"));
  EXPECT_EQ(part.count(LayerKind::recurrent), 4);
  EXPECT_EQ(part.count(LayerKind::attention), 1);
  EXPECT_EQ(part.vocab_size, 512);
  EXPECT_TRUE(part.eos_token_ids.empty()) << "a stop id outside the vocabulary";
  EXPECT_EQ(part.hidden_size, 5120);
}

TEST(Synthetic, TakesNoMemoryForMatrices) {
  const auto model = make_synthetic_model(parse_synthetic_spec("27B"));
  const WeightSizes sizes = weight_sizes(*model);
  std::int64_t in_memory = 0;
  for (std::size_t i = 0; i < model->graph().weights().size(); ++i) {
    const WeightData& data = model->weight(static_cast<WeightId>(i));
    const bool is_matrix = model->graph().weights()[i].kind == WeightKind::matrix;
    EXPECT_EQ(data.random.has_value(), is_matrix);
    EXPECT_EQ(sizes[i].in_place, !is_matrix) << "even a backend of host memory must make it";
    EXPECT_EQ(sizes[i].bytes, data.view.bytes());
    EXPECT_EQ(data.view.dtype, is_matrix ? DType::bf16 : DType::f32);
    if (!is_matrix) in_memory += data.view.bytes();
  }
  EXPECT_LT(in_memory, 16 << 20);
  EXPECT_GT(model->weight_bytes(), std::int64_t{50} << 30);
  EXPECT_EQ(model->parameters(), 26895998464);
}

TEST(Synthetic, VectorsAreWhatALoadedFileWouldGive) {
  const SyntheticSpec spec = parse_synthetic_spec("0.8B:layers=1,vocab=16");
  const auto model = make_synthetic_model(spec);
  const auto is_bf16 = [](float x) { return (num::bits_of(x) & 0xffff) == 0; };
  const auto all_bf16 = [&](const std::string& name) {
    const ConstTensor& view = weight(*model, name).view;
    const auto* first = view.row<float>(0);
    return std::all_of(first, first + view.shape.elements(), is_bf16);
  };
  EXPECT_TRUE(all_bf16("layers.0.linear_attn.dt_bias"));
  EXPECT_TRUE(all_bf16("layers.0.linear_attn.conv1d.weight"));
  EXPECT_TRUE(all_bf16("norm.weight"));
  EXPECT_FALSE(all_bf16("layers.0.linear_attn.A_log")) << "published files keep it in f32";
  EXPECT_FALSE(all_bf16("layers.0.linear_attn.norm.weight"));
}

TEST(Synthetic, AWeightDependsOnItsNameAndTheSeed) {
  const auto first = [](const char* spec, const std::string& name) {
    bf16 value{};
    weight(*make_synthetic_model(parse_synthetic_spec(spec)), name)
        .read(0, sizeof value, reinterpret_cast<std::byte*>(&value));
    return value.bits;
  };
  const std::string up = "layers.0.mlp.up_proj.weight";
  EXPECT_EQ(first("0.8B:layers=1,vocab=16", up), first("0.8B:layers=3", up));
  EXPECT_NE(first("0.8B:layers=1", up), first("0.8B:layers=1,seed=1", up));
  EXPECT_NE(first("0.8B:layers=1", up), first("0.8B:layers=1", "layers.0.mlp.gate_proj.weight"));
}

TEST(Synthetic, FingerprintsTellSpecsApart) {
  const auto fingerprint = [](const char* spec) {
    return make_synthetic_model(parse_synthetic_spec(spec))->fingerprint();
  };
  const std::string one = fingerprint("0.8B:layers=1,vocab=16");
  EXPECT_EQ(fingerprint("0.8B:layers=1,vocab=16"), one);
  for (const char* other : {"0.8B:layers=1,vocab=17", "0.8B:layers=2,vocab=16",
                            "0.8B:layers=1,vocab=16,seed=1", "0.8B:layers=1,vocab=16,dtype=f32"}) {
    EXPECT_NE(fingerprint(other), one) << other;
  }
}

TEST(Synthetic, RunsWithValuesOfNormalSize) {
  for (const char* spec : {"0.8B:layers=4,vocab=300", "9B:layers=1,vocab=300,dtype=f32"}) {
    const Context context = two_cpus();
    SessionOptions options;
    options.context_tokens = 8;
    Session session(context, make_synthetic_model(parse_synthetic_spec(spec)), options);
    const std::vector<TokenId> ids{1, 2, 3, 4};
    double squares = 0;
    const std::vector<float> logits = session.feed(session.open(), ids, Outputs::all);
    for (const float logit : logits) squares += static_cast<double>(logit) * logit;
    const double deviation = std::sqrt(squares / static_cast<double>(logits.size()));
    EXPECT_GT(deviation, 0.5) << spec;
    EXPECT_LT(deviation, 2) << spec;
  }
}

}  // namespace
}  // namespace tandem
