#include "core/io/model_config.hpp"

#include <nlohmann/json.hpp>

#include "core/io/json.hpp"
#include "core/io/mapped_file.hpp"
#include "tests/io/io_test_support.hpp"

namespace tandem {
namespace {

using test::expect_error;
using test::TempDir;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr auto kInvalid = ErrorCode::invalid_argument;
constexpr auto kUnsupported = ErrorCode::unsupported;

std::filesystem::path tiny() { return test::data_folder("TANDEM_MODELS") / "tiny"; }

Json tiny_json() { return read_json_file(tiny() / "config.json", 1 << 20); }

ModelConfig parse(const Json& json) { return parse_model_config(json.dump(), "config.json"); }

/// The tiny model's config with one key changed, or removed if the value is the text "absent".
ModelConfig parse_with(const char* key, const Json& value) {
  Json json = tiny_json();
  if (value == "absent") {
    json.erase(key);
  } else {
    json[key] = value;
  }
  return parse(json);
}

void expect_refused(const char* key, const Json& value, ErrorCode code,
                    std::initializer_list<const char*> parts) {
  SCOPED_TRACE(fmt::format("{} = {}", key, value.dump()));
  expect_error([&] { parse_with(key, value); }, code, {"config.json: ", key});
  expect_error([&] { parse_with(key, value); }, code, parts);
}

/// As in a vision-language checkpoint.
Json nested_json() {
  Json outer = {
      {"model_type", "qwen3_5"}, {"vision_config", {{"hidden_size", 7}}}, {"text_config", tiny_json()}};
  return outer;
}

TEST(ModelConfig, ReadsTheTinyModel) {
  const ModelConfig config = load_model_config(tiny());
  EXPECT_EQ(config.model_type, "qwen3_5_text");
  EXPECT_EQ(config.hidden_size, 192);
  EXPECT_EQ(config.intermediate_size, 384);
  EXPECT_EQ(config.num_hidden_layers, 8);
  EXPECT_EQ(config.vocab_size, 2048);
  EXPECT_EQ(config.layer_types, interleaved_layers(8, 4));
  EXPECT_EQ(config.linear_num_key_heads, 2);
  EXPECT_EQ(config.linear_num_value_heads, 6);
  EXPECT_EQ(config.linear_key_head_dim, 64);
  EXPECT_EQ(config.linear_value_head_dim, 32);
  EXPECT_EQ(config.linear_conv_kernel_dim, 4);
  EXPECT_EQ(config.num_attention_heads, 4);
  EXPECT_EQ(config.num_key_value_heads, 2);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.rotary_dim, 16);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.max_position_embeddings, 4096);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2045));

  EXPECT_EQ(config.key_dim(), 128);
  EXPECT_EQ(config.value_dim(), 192);
  EXPECT_EQ(config.conv_dim(), 448);
  EXPECT_EQ(config.q_dim(), 256);
  EXPECT_EQ(config.kv_dim(), 128);
  EXPECT_EQ(config.count(LayerKind::recurrent), 6);
  EXPECT_EQ(config.count(LayerKind::attention), 2);
}

TEST(ModelConfig, ReadsANestedConfig) {
  const Json nested = nested_json();
  ModelConfig config = parse(nested);
  EXPECT_EQ(config, parse(tiny_json()));
  Json inner_untyped = nested;
  inner_untyped["text_config"].erase("model_type");
  config = parse(inner_untyped);
  EXPECT_EQ(config.model_type, "qwen3_5");
  EXPECT_EQ(config.hidden_size, 192);
}

TEST(ModelConfig, OuterTyingWins) {
  Json nested = nested_json();
  EXPECT_TRUE(parse(nested).tie_word_embeddings);
  nested["tie_word_embeddings"] = false;
  EXPECT_FALSE(parse(nested).tie_word_embeddings);
  nested["text_config"]["tie_word_embeddings"] = false;
  nested["tie_word_embeddings"] = true;
  EXPECT_TRUE(parse(nested).tie_word_embeddings);
  EXPECT_FALSE(parse_with("tie_word_embeddings", "absent").tie_word_embeddings);
  expect_refused("tie_word_embeddings", "yes", kInvalid, {"expected true or false, found \"yes\""});
}

TEST(ModelConfig, NamesTheInnerObjectInMessages) {
  Json nested = nested_json();
  nested["text_config"]["hidden_size"] = 0;
  expect_error([&] { parse(nested); }, kInvalid, {"config.json: text_config: hidden_size", "found 0"});
  nested["text_config"] = 3;
  expect_error([&] { parse(nested); }, kInvalid, {"text_config: expected an object, found 3"});
}

TEST(ModelConfig, RefusesOtherArchitectures) {
  expect_refused("model_type", "llama", kUnsupported,
                 {"unknown model_type \"llama\": known are qwen3_5, qwen3_5_text"});
  for (const char* type : {"qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next"}) {
    expect_refused("model_type", type, kUnsupported, {type, "mixture-of-experts"});
  }
  expect_refused("model_type", "absent", kInvalid, {"model_type is missing"});
  expect_refused("model_type", 5, kInvalid, {"expected a string, found 5"});
  Json nested = nested_json();
  nested["text_config"]["model_type"] = "qwen3_5_moe_text";
  expect_error([&] { parse(nested); }, kUnsupported, {"text_config", "qwen3_5_moe_text"});
}

TEST(ModelConfig, RefusesVariantsThatAreNotBuilt) {
  expect_refused("num_experts", 256, kUnsupported, {"mixture-of-experts", "256"});
  expect_refused("hidden_act", "gelu", kUnsupported, {"only \"silu\"", "\"gelu\""});
  expect_refused("attention_bias", true, kUnsupported, {"only false"});
  expect_refused("attn_output_gate", false, kUnsupported, {"only true"});
  expect_refused("output_gate_type", "sigmoid", kUnsupported, {"only \"swish\" and \"silu\"", "\"sigmoid\""});
  for (const Json& gate : {Json("swish"), Json("silu"), Json()})
    EXPECT_NO_THROW(parse_with("output_gate_type", gate));
  EXPECT_NO_THROW(parse_with("num_experts", 0));
  EXPECT_NO_THROW(parse_with("num_experts", nullptr));
  EXPECT_NO_THROW(parse_with("attn_output_gate", true));
  EXPECT_NO_THROW(parse_with("hidden_act", "absent"));
  EXPECT_NO_THROW(parse_with("attention_bias", "absent"));
}

TEST(ModelConfig, ChecksEverySize) {
  for (const char* key :
       {"hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size", "max_position_embeddings",
        "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
        "linear_conv_kernel_dim", "num_attention_heads", "num_key_value_heads", "head_dim"}) {
    expect_refused(key, 0, kInvalid, {"expected an integer of", "found 0"});
    expect_refused(key, -4, kInvalid, {"found -4"});
    expect_refused(key, std::int64_t{1} << 40, kInvalid, {"found 1099511627776"});
    expect_refused(key, ~std::uint64_t{0}, kInvalid, {"found 18446744073709551615"});
    expect_refused(key, 4.5, kInvalid, {"found 4.5"});
    expect_refused(key, 4.0, kInvalid, {"found 4.0"});
    expect_refused(key, "4", kInvalid, {"found \"4\""});
    expect_refused(key, Json::array({4}), kInvalid, {"found an array of 1"});
    expect_refused(key, true, kInvalid, {"found true"});
    const std::string_view name = key;
    if (name == "max_position_embeddings" || name == "linear_conv_kernel_dim") continue;
    expect_refused(key, nullptr, kInvalid, {"is missing"});
    expect_refused(key, "absent", kInvalid, {"is missing", "expected an integer of"});
  }
}

TEST(ModelConfig, WhatMayBeLeftOutIsAsInTransformers) {
  for (const Json& missing : {Json("absent"), Json()}) {
    EXPECT_EQ(parse_with("max_position_embeddings", missing).max_position_embeddings, 32768);
    EXPECT_EQ(parse_with("linear_conv_kernel_dim", missing).linear_conv_kernel_dim, 4);
  }
}

TEST(ModelConfig, NumbersThatJsonHasNoWordForAreRefusedWhereTheyAreRead) {
  std::string text = tiny_json().dump();
  text.replace(0, 1, R"({"a": NaN, "b": [Infinity, -Infinity], "c \" NaN": {"d": "NaN, \" Infinity"},)");
  EXPECT_EQ(parse_model_config(text, "c"), parse(tiny_json()));
  const std::string eps = "\"rms_norm_eps\":";
  const std::size_t at = text.find(eps) + eps.size();
  text.replace(at, text.find(',', at) - at, "NaN");
  expect_error([&] { parse_model_config(text, "c"); }, kInvalid,
               {"rms_norm_eps: expected a number, found \"NaN\""});
  for (const char* word : {"{\"a\": nan}", "{\"a\": +Infinity}", "{\"a\": NaNs}", "NaN NaN"}) {
    expect_error([&] { parse_model_config(word, "c"); }, ErrorCode::corrupt, {"c: not valid JSON"});
  }
}

TEST(ModelConfig, ChecksTheLimitsExactly) {
  expect_refused("linear_conv_kernel_dim", 1, kInvalid, {"an integer of 2 to 16, found 1"});
  expect_refused("linear_conv_kernel_dim", 17, kInvalid, {"found 17"});
  EXPECT_EQ(parse_with("linear_conv_kernel_dim", 2).linear_conv_kernel_dim, 2);
  EXPECT_EQ(parse_with("linear_conv_kernel_dim", 16).linear_conv_kernel_dim, 16);
  EXPECT_EQ(parse_with("hidden_size", 65536).hidden_size, 65536);
  expect_refused("hidden_size", 65537, kInvalid, {"1 to 65536, found 65537"});
}

TEST(ModelConfig, ChecksThatHeadsDivide) {
  expect_refused("linear_num_value_heads", 7, kInvalid, {"a multiple of linear_num_key_heads (2), found 7"});
  expect_refused("linear_num_value_heads", 1, kInvalid, {"found 1"});
  expect_refused("num_attention_heads", 5, kInvalid, {"a multiple of num_key_value_heads (2), found 5"});
}

TEST(ModelConfig, ReadsLayerTypes) {
  using enum LayerKind;
  EXPECT_THAT(interleaved_layers(5, 2), ElementsAre(recurrent, attention, recurrent, attention, recurrent));
  EXPECT_EQ(parse_with("layer_types", "absent").layer_types, interleaved_layers(8, 4));
  Json json = tiny_json();
  json["full_attention_interval"] = 2;
  EXPECT_EQ(parse(json).layer_types, interleaved_layers(8, 4)) << "the list wins";
  json.erase("layer_types");
  EXPECT_EQ(parse(json).layer_types, interleaved_layers(8, 2));
  json["full_attention_interval"] = 0;
  expect_error([&] { parse(json); }, kInvalid, {"full_attention_interval", "found 0"});
}

TEST(ModelConfig, RefusesBadLayerTypes) {
  Json types = tiny_json()["layer_types"];
  types[5] = "sliding_attention";
  expect_refused("layer_types", types, kUnsupported, {"layer_types[5]", "found \"sliding_attention\""});
  types[5] = 1;
  expect_refused("layer_types", types, kInvalid, {"layer_types[5]", "found 1"});
  types.erase(5);
  expect_refused("layer_types", types, ErrorCode::corrupt, {"expected num_hidden_layers (8) words, found 7"});
  expect_refused("layer_types", Json::array(), ErrorCode::corrupt, {"found 0"});
  expect_refused("layer_types", "full_attention", kInvalid, {"expected an array"});
}

TEST(ModelConfig, ReadsRopeParameters) {
  Json json = tiny_json();
  json["rope_theta"] = 5;
  json["partial_rotary_factor"] = 1;
  EXPECT_EQ(parse(json).rope_theta, 10000) << "the dictionary wins";
  EXPECT_EQ(parse(json).rotary_dim, 16);
  json.erase("rope_parameters");
  EXPECT_EQ(parse(json).rope_theta, 5);
  EXPECT_EQ(parse(json).rotary_dim, 64);
  json.erase("rope_theta");
  json.erase("partial_rotary_factor");
  expect_error([&] { parse(json); }, kInvalid,
               {"config.json: rope_theta is missing, expected a number above 1"});
  json["rope_theta"] = 7;
  EXPECT_EQ(parse(json).rope_theta, 7);
  EXPECT_EQ(parse(json).rotary_dim, 16);
  for (const Json& nothing : {Json(), Json::object(), Json({{"type", "default"}, {"factor", nullptr}})}) {
    json["rope_scaling"] = nothing;
    EXPECT_EQ(parse(json).rope_theta, 7);
  }
  // Some exports leave the factor out of the dictionary.
  EXPECT_EQ(parse_with("rope_parameters", {{"rope_theta", 20}}).rotary_dim, 16);
}

TEST(ModelConfig, RefusesBadRopeParameters) {
  const auto refuse = [](const Json& rope, ErrorCode code, std::initializer_list<const char*> parts) {
    SCOPED_TRACE(rope.dump());
    expect_error([&] { parse_with("rope_parameters", rope); }, code, parts);
  };
  refuse({{"rope_type", "yarn"}}, kUnsupported, {"rope_parameters: rope_type", "\"default\"", "\"yarn\""});
  refuse({{"type", "linear"}}, kUnsupported, {"rope_parameters: type", "\"linear\""});
  refuse({{"rope_theta", 1}}, kInvalid, {"rope_theta: expected a number above 1, found 1"});
  refuse({{"rope_theta", -1e7}}, kInvalid, {"rope_theta"});
  refuse({{"rope_theta", "1e7"}}, kInvalid, {"rope_parameters: rope_theta", "found \"1e7\""});
  refuse({{"rope_theta", 1e4}, {"partial_rotary_factor", 0}}, kInvalid, {"partial_rotary_factor", "found 0"});
  refuse({{"rope_theta", 1e4}, {"partial_rotary_factor", 1.5}}, kInvalid,
         {"partial_rotary_factor", "found 1.5"});
  refuse({{"rope_theta", 1e4}, {"partial_rotary_factor", 0.01}}, kInvalid, {"gives 0 rotated elements"});
  refuse({{"rope_theta", 1e4}, {"partial_rotary_factor", 0.24}}, kInvalid,
         {"0.24 of head_dim 64 gives 15 rotated elements"});
  refuse("default", kInvalid, {"rope_parameters: expected an object"});
  for (const char* type : {"linear", "dynamic", "yarn", "longrope", "llama3", "proportional"}) {
    const Json rope{{"rope_type", type}, {"rope_theta", 1e4}, {"factor", 4.0}};
    refuse(rope, kUnsupported, {"rope_type", type});
    expect_refused("rope_scaling", rope, kUnsupported, {"rope_scaling: rope_type", type});
  }
  refuse({{"rope_theta", 1e4}, {"factor", 4.0}}, kUnsupported, {"rope_parameters: \"factor\"", "found 4.0"});
  refuse({{"full_attention", {{"rope_theta", 1e4}}}}, kUnsupported, {"rope_parameters: \"full_attention\""});
  // transformers takes all of rope_scaling instead of rope_parameters.
  expect_refused("rope_scaling", {{"rope_theta", 5e5}}, kUnsupported, {"rope_scaling: \"rope_theta\""});
  expect_refused("rope_scaling", {{"type", "yarn"}}, kUnsupported, {"rope_scaling: type", "\"yarn\""});
}

TEST(ModelConfig, ChecksEpsilon) {
  EXPECT_EQ(parse_with("rms_norm_eps", "absent").rms_norm_eps, 1e-6);
  EXPECT_EQ(parse_with("rms_norm_eps", 1e-5).rms_norm_eps, 1e-5);
  for (const Json& value : {Json(0), Json(-1e-6), Json(1), Json(2.5), Json("1e-6")}) {
    expect_refused("rms_norm_eps", value, kInvalid, {"rms_norm_eps: expected a number"});
  }
}

TEST(ModelConfig, ReadsEndOfSequenceTokens) {
  EXPECT_THAT(parse_with("eos_token_id", "absent").eos_token_ids, IsEmpty());
  EXPECT_THAT(parse_with("eos_token_id", nullptr).eos_token_ids, IsEmpty());
  EXPECT_THAT(parse_with("eos_token_id", Json::array({3, 1})).eos_token_ids, ElementsAre(3, 1));
  expect_refused("eos_token_id", 2048, kInvalid, {"an integer of 0 to 2047, found 2048"});
  expect_refused("eos_token_id", -1, kInvalid, {"found -1"});
  expect_refused("eos_token_id", "x", kInvalid, {"found \"x\""});
  Json nested = nested_json();
  nested["eos_token_id"] = 7;
  EXPECT_THAT(parse(nested).eos_token_ids, ElementsAre(2045));
  nested["text_config"].erase("eos_token_id");
  EXPECT_THAT(parse(nested).eos_token_ids, ElementsAre(7));
}

TEST(ModelConfig, GenerationConfigWins) {
  const TempDir dir;
  dir.write("config.json", tiny_json().dump());
  EXPECT_THAT(load_model_config(dir.path()).eos_token_ids, ElementsAre(2045));
  dir.write("generation_config.json", "{}");
  EXPECT_THAT(load_model_config(dir.path()).eos_token_ids, ElementsAre(2045));
  dir.write("generation_config.json", R"({"eos_token_id": 9})");
  EXPECT_THAT(load_model_config(dir.path()).eos_token_ids, ElementsAre(9));
  dir.write("generation_config.json", R"({"eos_token_id": [8, 9]})");
  EXPECT_THAT(load_model_config(dir.path()).eos_token_ids, ElementsAre(8, 9));
  dir.write("generation_config.json", R"({"temperature": NaN, "eos_token_id": []})");
  EXPECT_THAT(load_model_config(dir.path()).eos_token_ids, IsEmpty());
  dir.write("generation_config.json", "[]");
  expect_error([&] { load_model_config(dir.path()); }, kInvalid,
               {"generation_config.json: expected an object"});
}

TEST(ModelConfig, EndsOfAnotherModelAreLeftOutAndNamed) {
  const TempDir dir;
  dir.write("config.json", tiny_json().dump());
  for (const char* ids : {"5000", "2048", "-1", "\"x\"", "1.5", "18446744073709551615", "[2048]", "true"}) {
    dir.write("generation_config.json", fmt::format("{{\"eos_token_id\": {}}}", ids));
    std::vector<std::string> notices;
    EXPECT_THAT(load_model_config(dir.path(), &notices).eos_token_ids, ElementsAre(2045)) << ids;
    EXPECT_THAT(notices, ElementsAre(testing::HasSubstr(
                             "generation_config.json: eos_token_id: expected an integer of 0 "
                             "to 2047, found ")));
    EXPECT_NO_THROW(load_model_config(dir.path()));
  }
  dir.write("generation_config.json", R"({"eos_token_id": [248046, 7, 248044]})");
  std::vector<std::string> notices;
  EXPECT_THAT(load_model_config(dir.path(), &notices).eos_token_ids, ElementsAre(7));
  EXPECT_EQ(notices.size(), 2u);
}

TEST(ModelConfig, AdaptersAndPointersAreNamedAsWhatTheyAre) {
  constexpr const char* kPointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32\nsize "
      "9\n";
  const TempDir dir;
  dir.write("config.json", kPointer);
  expect_error([&] { load_model_config(dir.path()); }, ErrorCode::corrupt,
               {"config.json: a git-lfs pointer", "'git lfs pull'"});
  dir.write("model.gguf", kPointer);
  expect_error([&] { load_model_config(dir.path() / "model.gguf"); }, ErrorCode::corrupt,
               {"model.gguf: a git-lfs pointer"});
  dir.write("config.json", tiny_json().dump());
  dir.write("generation_config.json", kPointer);
  expect_error([&] { load_model_config(dir.path()); }, ErrorCode::corrupt,
               {"generation_config.json: a git-lfs pointer"});
  dir.write("adapter_config.json", "{}");
  expect_error([&] { load_model_config(dir.path()); }, kUnsupported, {"LoRA adapter", "merge"});
}

TEST(ModelConfig, RefusesWhatIsNoConfig) {
  const TempDir dir;
  expect_error([&] { load_model_config(dir.path()); }, ErrorCode::not_found, {"no such file", "config.json"});
  expect_error([&] { load_model_config(dir.path() / "absent"); }, ErrorCode::not_found,
               {"no such directory"});
  expect_error([&] { load_model_config(tiny() / "config.json"); }, kInvalid, {"is a file, expected"});
  expect_error([] { parse_model_config("{", "c"); }, ErrorCode::corrupt, {"c: not valid JSON at byte 2"});
  expect_error([] { parse_model_config("[]", "c"); }, kInvalid, {"c: expected an object"});
  expect_error([] { parse_model_config(std::string(100'000, '['), "c"); }, ErrorCode::corrupt,
               {"nested deeper"});
}

}  // namespace
}  // namespace tandem
