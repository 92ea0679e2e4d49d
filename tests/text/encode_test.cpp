#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "tests/share.hpp"
#include "tests/text/text_test_data.hpp"

namespace tandem {
namespace {

using text_test::expect_error;
using text_test::tiny;
using Ids = std::vector<TokenId>;

TEST(Encode, GivesTheOraclesIds) {
  const auto oracle = text_test::read_json(text_test::oracle_folder() / "oracle.json");
  ASSERT_GE(oracle.at("tokenize").size(), 18u);
  for (const auto& c : oracle.at("tokenize"))
    EXPECT_EQ(tiny().encode(c.at("text").get<std::string>()), c.at("ids").get<Ids>()) << c.at("text");
  ASSERT_EQ(oracle.at("greedy").size(), 4u);
  for (const auto& c : oracle.at("greedy"))
    EXPECT_EQ(tiny().encode(c.at("prompt").get<std::string>()), c.at("prompt_ids").get<Ids>());
}

/// One I32 tensor of a safetensors file: a 64-bit header size, a JSON header, the data.
Ids read_i32(const std::filesystem::path& path, const char* tensor) {
  const std::string file = text_test::read_file(path);
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, file.data(), sizeof header_size);
  const auto entry = nlohmann::json::parse(file.substr(8, header_size)).at(tensor);
  if (entry.at("dtype") != "I32") throw std::runtime_error("expected I32");
  const auto [begin, end] = entry.at("data_offsets").get<std::pair<std::size_t, std::size_t>>();
  Ids ids((end - begin) / sizeof(TokenId));
  std::memcpy(ids.data(), file.data() + 8 + header_size + begin, end - begin);
  return ids;
}

TEST(Encode, GivesTheIdsOfTheHeldOutText) {
  const Ids expected = read_i32(text_test::oracle_folder() / "oracle.safetensors", "input_ids");
  ASSERT_EQ(expected.size(), 1024u);
  Ids ids = tiny().encode(text_test::read_file(text_test::oracle_folder() / "heldout.txt"));
  ASSERT_GT(ids.size(), expected.size());
  ids.resize(expected.size());
  EXPECT_EQ(ids, expected);
}

TEST(Encode, GivesTheReferencesIdsForEachKindOfFile) {
  const auto reference = text_test::reference_cases();
  ASSERT_EQ(reference.at("encode").size(), 10u);
  for (const auto& variant : reference.at("encode")) {
    const auto tokenizer = Tokenizer::from_json(text_test::patched_tiny(variant.at("patch")), "patched");
    for (const auto& c : variant.at("cases")) {
      EXPECT_EQ(tokenizer.encode(c.at("text").get<std::string>(), variant.at("parse_special").get<bool>()),
                c.at("ids").get<Ids>())
          << variant.at("name") << ": " << c.at("text");
    }
  }
}

TEST(Encode, ReadsMergesInBothForms) {
  auto document = text_test::read_json(text_test::tiny_path());
  auto& merges = document.at("model").at("merges");
  ASSERT_TRUE(merges.at(0).is_array());
  for (auto& merge : merges) merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  const auto other = Tokenizer::from_json(document.dump(), "string merges");
  const std::string text = text_test::read_file(text_test::oracle_folder() / "heldout.txt").substr(0, 20000);
  EXPECT_EQ(other.encode(text), tiny().encode(text));
}

TEST(Encode, TakesSpecialTokensAsTextWhenAsked) {
  const TokenId start = tiny().id_of("<|im_start|>").value();
  EXPECT_EQ(tiny().encode("<|im_start|>"), Ids{start});
  const Ids as_text = tiny().encode("<|im_start|>", false);
  EXPECT_GT(as_text.size(), 1u);
  EXPECT_EQ(std::count(as_text.begin(), as_text.end(), start), 0);
  EXPECT_EQ(tiny().decode(as_text), "<|im_start|>");
}

struct IllFormed {
  std::string text;
  const char* part;
};

TEST(Encode, RefusesTextThatIsNotUtf8AndSaysWhere) {
  const IllFormed cases[] = {
      {"\xFF", "byte 0 (0xFF)"},
      {"ab\x80", "byte 2 (0x80)"},
      {"\xC3\xA9\xC3", "byte 2 (0xC3)"},
      {"a\xC0\xAF", "byte 1 (0xC0)"},
      {"\xE2\x82\xACx\xED\xA0\x80", "byte 4 (0xED)"},
      {"\xF4\x90\x80\x80", "byte 0 (0xF4)"},
      {"\xE0\x80\x80", "byte 0 (0xE0)"},
      {"<|im_start|>\xFE", "byte 12 (0xFE)"},
  };
  for (const auto& c : cases) {
    expect_error(ErrorCode::invalid_argument, c.part, [&] { tiny().encode(c.text); });
  }
}

TEST(Encode, RefusesAByteWithoutAToken) {
  const auto patch = nlohmann::json::parse(R"({"model": {"vocab": {"q": null}, "merges": []}})");
  const auto tokenizer = Tokenizer::from_json(text_test::patched_tiny(patch), "no q");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("abc")), "abc");
  expect_error(ErrorCode::unsupported, "byte 0x71", [&] { tokenizer.encode("abcq"); });
}

std::string repeat(std::string_view unit, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

/// Of this process: other work may share the machine.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

TEST(Encode, TakesTimeInProportionForOneEndlessWord) {
  // A quadratic step takes minutes on each of these: merging, matching, ordering marks (in the worst order),
  // added tokens.
  for (const char* unit : {"a", "the", " ", "\n", "!", "\u0301\u0323", "\uD55C", "<", "<|im_start|>"}) {
    const std::string text = repeat(unit, test::share_of<std::size_t>(1'000'000));
    const double begin = processor_seconds();
    const Ids ids = tiny().encode(text);
    EXPECT_LT(processor_seconds() - begin, 10.0) << unit;  // a fifth of a second without a sanitizer
    EXPECT_FALSE(ids.empty());
  }
}

TEST(Encode, MergesALongWordAsAShortOne) {
  // 'e', 'r' and 're' over and over, with one merge for each of the two pairs: the leftmost of equal rank
  // goes first.
  const auto tokenizer = Tokenizer::from_json(
      text_test::patched_tiny(nlohmann::json::parse(R"({"model": {"merges": [["r", "e"], ["e", "r"]]}})")),
      "two merges");
  const auto bytes_of = [&](TokenId id) { return std::string(tokenizer.token_bytes(id)); };
  const Ids ids = tokenizer.encode("er" + repeat("er", 99'998));
  ASSERT_EQ(ids.size(), 50'001u);  // e, re, re, ..., r
  EXPECT_EQ(bytes_of(ids.front()), "e");
  EXPECT_EQ(bytes_of(ids.back()), "r");
  for (std::size_t i = 1; i + 1 < ids.size(); ++i) ASSERT_EQ(bytes_of(ids[i]), "re");
}

TEST(Encode, ReportsAPatternThatExhaustsTheMatcher) {
  const auto patch = nlohmann::json::parse(R"({"pre_tokenizer": {"pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "(a+)+[bc]"}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]}})");
  const auto tokenizer = Tokenizer::from_json(text_test::patched_tiny(patch), "slow");
  expect_error(ErrorCode::invalid_argument, "match limit exceeded",
               [&] { tokenizer.encode(std::string(64, 'a')); });
}

TEST(Encode, RefusesAWordOfManyMegabytes) {
  const std::string longest(std::size_t{4} << 20, '\0');
  EXPECT_EQ(tiny().encode(longest).size(), longest.size());  // no merge joins two of them
  expect_error(ErrorCode::invalid_argument, "expected words of at most 4194304 bytes, found one of 4194305",
               [&] { tiny().encode(longest + '\0'); });
}

TEST(Encode, MayBeCalledFromManyThreads) {
  const std::string text = text_test::read_file(text_test::oracle_folder() / "heldout.txt").substr(0, 10000);
  const Ids expected = tiny().encode(text);
  std::vector<Ids> results(4);
  {
    std::vector<std::jthread> threads;
    for (Ids& result : results) threads.emplace_back([&] { result = tiny().encode(text); });
  }
  for (const Ids& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace tandem
