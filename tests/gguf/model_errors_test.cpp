#include <cmath>

#include "core/text/tokenizer.hpp"
#include "graph/model/gguf_model.hpp"
#include "tests/gguf/tiny_gguf.hpp"
#include "tests/io/io_test_support.hpp"

namespace tandem {
namespace {

using test::GgufWriter;
using Words = std::initializer_list<const char*>;

/// Opens the model and its tokenizer.
void open_all(const GgufWriter& writer) {
  const test::TempDir dir;
  const GgufModelFile file(dir.write("m.gguf", writer.bytes()));
  Tokenizer::from_gguf(file.file());
  file.open();
}

void expect_refused(const GgufWriter& writer, ErrorCode code, Words words) {
  test::expect_error([&] { open_all(writer); }, code, words);
}

/// The usual file with one string of its keys replaced by one of the same length.
void expect_refused_with(std::string_view old, std::string_view replacement, ErrorCode code, Words words) {
  GgufWriter writer = test::small_gguf({});
  const std::size_t at = writer.keys.find(old);
  ASSERT_NE(at, std::string::npos) << old;
  ASSERT_EQ(old.size(), replacement.size());
  writer.keys.replace(at, old.size(), replacement);
  expect_refused(writer, code, words);
}

std::string number_key(std::string_view name, std::uint32_t value) {
  return test::raw_string("qwen35." + std::string(name)) + test::raw(std::uint32_t{4}) + test::raw(value);
}

/// The usual file with another value of a number.
void expect_number_refused(std::string_view name, std::uint32_t old, std::uint32_t value, Words words,
                           ErrorCode code = ErrorCode::invalid_argument) {
  expect_refused_with(number_key(name, old), number_key(name, value), code, words);
}

TEST(GgufModelErrors, TheUsualFileIsNotRefused) { EXPECT_NO_THROW(open_all(test::small_gguf({}))); }

TEST(GgufModelErrors, AnotherArchitectureIsNamed) {
  expect_refused_with(test::raw_string("qwen35"), test::raw_string("qwen3x"), ErrorCode::unsupported,
                      {"architecture", "qwen3x", "qwen35"});
  expect_refused(GgufWriter(), ErrorCode::unsupported, {"architecture", "missing"});
  GgufWriter experts = test::small_gguf({});
  expect_refused(experts.u32("qwen35.expert_count", 8), ErrorCode::unsupported, {"expert_count", "8"});
  GgufWriter split = test::small_gguf({});
  expect_refused(split.key("split.count", 2, test::raw(std::uint16_t{3})), ErrorCode::unsupported,
                 {"split.count", "3 files"});
  GgufWriter scaled = test::small_gguf({});
  expect_refused(scaled.string("qwen35.rope.scaling.type", "yarn"), ErrorCode::unsupported,
                 {"rope.scaling", "yarn"});
}

TEST(GgufModelErrors, SizesOutOfRangeAreNamed) {
  expect_number_refused("block_count", 4, 0, {"nextn_predict_layers", "block_count (0)"});
  expect_number_refused("block_count", 4, 1u << 30, {"num_hidden_layers", "1073741824"});
  expect_number_refused("embedding_length", 32, 0, {"hidden_size", "found 0"});
  expect_number_refused("ssm.inner_size", 192, 191, {"ssm.inner_size", "191", "multiple of", "6"});
  expect_number_refused("ssm.time_step_rank", 6, 0, {"ssm.time_step_rank"});
  expect_number_refused("ssm.group_count", 2, 0, {"linear_num_key_heads"});
  expect_number_refused("ssm.group_count", 2, 4, {"linear_num_value_heads", "multiple"});
  expect_number_refused("rope.dimension_count", 16, 15, {"rope.dimension_count", "even", "15"});
  expect_number_refused("rope.dimension_count", 16, 66, {"rope.dimension_count", "66"});
  expect_number_refused("attention.value_length", 32, 64, {"value_length", "64"}, ErrorCode::unsupported);
  expect_number_refused("attention.value_length", 32, 64, {"two sizes"}, ErrorCode::unsupported);
}

TEST(GgufModelErrors, AMissingKeyIsNamed) {
  expect_refused_with("qwen35.context_length", "qwen35.context_lengtX", ErrorCode::invalid_argument,
                      {"qwen35.context_length is missing"});
}

TEST(GgufModelErrors, AMissingTensorIsNamed) {
  const auto without = [](const std::string& which) {
    return test::small_gguf({.change = [=](const std::string& tensor, std::string bytes) {
      return tensor == which ? std::optional<std::string>() : std::move(bytes);
    }});
  };
  expect_refused(without("blk.3.attn_k.weight"), ErrorCode::not_found, {"blk.3.attn_k.weight"});
  expect_refused(without("token_embd.weight"), ErrorCode::not_found, {"token_embd.weight"});
}

/// Another file of the same model in which one tensor has these dimensions and type.
GgufWriter with_tensor(const std::string& which, std::uint32_t type, const std::vector<std::int64_t>& dims) {
  GgufWriter writer = test::small_gguf({.change = [&](const std::string& tensor, std::string bytes) {
    return tensor == which ? std::optional<std::string>() : std::move(bytes);
  }});
  return writer.tensor(which, type, dims, std::string(1 << 15, '\0'));
}

TEST(GgufModelErrors, AWrongShapeIsNamed) {
  const Words up = {"blk.1.ffn_up.weight", "[32, 31]", "[32, 32]"};
  expect_refused(with_tensor("blk.1.ffn_up.weight", test::kGgmlBf16, {32, 31}), ErrorCode::mismatch, up);
  expect_refused(with_tensor("blk.1.ffn_up.weight", test::kGgmlBf16, {384}), ErrorCode::mismatch, {"[384]"});
  expect_refused(with_tensor("blk.1.ssm_a", test::kGgmlF32, {7}), ErrorCode::mismatch,
                 {"blk.1.ssm_a", "7 rows", "6"});
  expect_refused(with_tensor("blk.1.attn_qkv.weight", test::kGgmlBf16, {319, 32}), ErrorCode::mismatch,
                 {"319 rows", "320"});
  expect_refused(with_tensor("blk.1.attn_gate.weight", test::kGgmlBf16, {1, 32}), ErrorCode::mismatch,
                 {"1 rows", "192"});
  expect_refused(with_tensor("blk.1.ssm_out.weight", test::kGgmlQ4_0, {32, 64}), ErrorCode::mismatch,
                 {"64 columns", "192"});
  expect_refused(with_tensor("blk.1.ssm_out.weight", test::kGgmlQ4_0, {31, 192}), ErrorCode::mismatch,
                 {"[31, 192]"});
}

TEST(GgufModelErrors, ATypeThatCannotBeReadIsNamed) {
  expect_refused(with_tensor("blk.1.ffn_up.weight", 10, {1, 256}), ErrorCode::unsupported,
                 {"blk.1.ffn_up.weight", "Q2_K", "Q6_K"});
  expect_refused(with_tensor("blk.1.ffn_up.weight", 99, {32, 32}), ErrorCode::unsupported,
                 {"blk.1.ffn_up.weight", "number 99"});
}

TEST(GgufModelErrors, ADecayThatCannotBeIsNamed) {
  for (const float bad : {0.0f, 1.5f, -INFINITY, NAN}) {
    const auto change = [&](const std::string& tensor, std::string bytes) {
      if (tensor == "blk.2.ssm_a") bytes.replace(4, 4, test::raw(bad));
      return bytes;
    };
    expect_refused(test::small_gguf({.change = change}), ErrorCode::corrupt,
                   {"blk.2.ssm_a", "numbers below 0"});
  }
}

TEST(GgufModelErrors, ATokenizerThatCannotBeIsNamed) {
  const GgufWriter bare = test::small_gguf({.tokenizer = false});
  expect_refused(bare, ErrorCode::not_found, {"no tokenizer", "tokenizer.ggml.model"});
  expect_refused_with("gpt2", "bert", ErrorCode::unsupported, {"tokenizer.ggml.model", "bert", "gpt2"});
  const std::string pre = test::raw_string("tokenizer.ggml.pre") + test::raw(std::uint32_t{8});
  expect_refused_with(pre + test::raw_string("qwen35"), pre + test::raw_string("llama3"),
                      ErrorCode::unsupported, {"tokenizer.ggml.pre", "llama3", "qwen2"});
  expect_refused_with("tokenizer.ggml.tokens", "tokenizer.ggml.tokenX", ErrorCode::corrupt,
                      {"tokenizer.ggml.tokens"});
  expect_refused_with(test::raw_string("!"), test::raw_string("\""), ErrorCode::corrupt,
                      {"token 3", "no other token"});
  expect_refused_with(test::raw_string("!"), test::raw_string("\xff"), ErrorCode::corrupt,
                      {"token 2", "UTF-8"});
  expect_refused_with(test::raw_string("A B"), test::raw_string("A_B"), ErrorCode::corrupt,
                      {"merge 0", "two tokens"});
  expect_refused_with(test::raw_string("A B"), test::raw_string("A C"), ErrorCode::corrupt,
                      {"merge 0", "vocabulary"});
  GgufWriter added = test::small_gguf({});
  expect_refused(added.boolean("tokenizer.ggml.add_bos_token", true), ErrorCode::unsupported,
                 {"add_bos_token"});
  GgufWriter few = bare;
  few.string("tokenizer.ggml.model", "gpt2")
      .string("tokenizer.ggml.pre", "qwen2")
      .strings("tokenizer.ggml.tokens", {"a", "b"});
  few.strings("tokenizer.ggml.merges", {});
  GgufWriter odd = few;
  expect_refused(few.i32s("tokenizer.ggml.token_type", {1}), ErrorCode::corrupt,
                 {"each of the 2 tokens", "found 1"});
  expect_refused(odd.i32s("tokenizer.ggml.token_type", {1, 6}), ErrorCode::unsupported,
                 {"token 1 of type 6"});
}

}  // namespace
}  // namespace tandem
