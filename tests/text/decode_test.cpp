#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "core/text/stream_decoder.hpp"
#include "core/text/unicode.hpp"
#include "core/text/utf8.hpp"
#include "tests/text/text_test_data.hpp"

namespace tandem {
namespace {

using text_test::expect_error;
using text_test::is_utf8;
using text_test::tiny;
using Ids = std::vector<TokenId>;

constexpr const char* kReplacement = "\uFFFD";

/// The token of each byte.
Ids byte_tokens() {
  Ids ids(256, -1);
  for (TokenId id = 0; id < tiny().vocab_size(); ++id) {
    const auto bytes = tiny().token_bytes(id);
    if (bytes.size() == 1) ids[static_cast<unsigned char>(bytes[0])] = id;
  }
  return ids;
}

Ids ids_of_bytes(std::string_view bytes) {
  static const Ids tokens = byte_tokens();
  Ids ids;
  for (char c : bytes) ids.push_back(tokens[static_cast<unsigned char>(c)]);
  return ids;
}

/// All pieces in a row; each is checked on the way.
std::string streamed(const Ids& ids, bool skip_special = false) {
  StreamDecoder decoder(tiny(), skip_special);
  std::string text;
  for (TokenId id : ids) {
    const std::string piece = decoder.push(id);
    EXPECT_TRUE(is_utf8(piece)) << "token " << id;
    text += piece;
  }
  const std::string rest = decoder.flush();
  EXPECT_TRUE(is_utf8(rest));
  EXPECT_EQ(decoder.flush(), "");
  return text + rest;
}

TEST(Decode, GivesTheOraclesTexts) {
  const auto oracle = text_test::read_json(text_test::oracle_folder() / "oracle.json");
  ASSERT_EQ(oracle.at("greedy").size(), 4u);
  for (const auto& c : oracle.at("greedy")) {
    EXPECT_EQ(tiny().decode(c.at("output_ids").get<Ids>()), c.at("text").get<std::string>());
    EXPECT_EQ(streamed(c.at("output_ids").get<Ids>()), c.at("text").get<std::string>());
  }
}

TEST(Decode, GivesTheReferencesTexts) {
  const auto cases = text_test::reference_cases().at("decode");
  ASSERT_EQ(cases.size(), 24u);
  for (const auto& c : cases) {
    const bool skip = c.at("skip_special").get<bool>();
    EXPECT_EQ(tiny().decode(c.at("ids").get<Ids>(), skip), c.at("text").get<std::string>()) << c;
    EXPECT_EQ(streamed(c.at("ids").get<Ids>(), skip), c.at("text").get<std::string>()) << c;
  }
}

TEST(Decode, ReplacesEachMaximalSubpart) {
  // The examples of the Unicode standard, section 3.9, tables 3-8 to 3-11: how many U+FFFD, with text in
  // between.
  struct Case {
    std::string bytes;
    std::vector<int> replacements;  // before each letter, and after the last
    std::string letters;
  };
  const Case cases[] = {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", {8, 0}, "A"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", {8, 0}, "A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", {5, 2, 0}, "AB"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", {4, 0}, "A"},
      {"\x41\xF0\x9F\x98", {0, 1}, "A"},
  };
  for (const auto& c : cases) {
    std::string expected;
    for (std::size_t i = 0; i < c.replacements.size(); ++i) {
      for (int k = 0; k < c.replacements[i]; ++k) expected += kReplacement;
      if (i < c.letters.size()) expected += c.letters[i];
    }
    EXPECT_EQ(tiny().decode(ids_of_bytes(c.bytes)), expected);
    EXPECT_EQ(streamed(ids_of_bytes(c.bytes)), expected);
  }
}

TEST(Decode, StreamAgreesWithTheWholeOnRandomTokens) {
  const CounterRandom random("stream", 1);
  const Ids bytes = byte_tokens();
  std::uint64_t next = 0;
  const auto below = [&](std::uint64_t n) { return random.bits(next++) % n; };
  int with_damage = 0;
  for (int round = 0; round < 2000; ++round) {
    Ids ids;
    for (std::uint64_t i = below(30); i > 0; --i) {
      // Mostly bytes from 0x80 on, so that characters are made and broken in every way.
      const bool any = below(4) == 0;
      ids.push_back(any ? static_cast<TokenId>(below(static_cast<std::uint64_t>(tiny().vocab_size())))
                        : bytes[0x80 + below(0x80)]);
    }
    const bool skip = below(2) == 0;
    const std::string whole = tiny().decode(ids, skip);
    EXPECT_TRUE(is_utf8(whole));
    EXPECT_EQ(streamed(ids, skip), whole);
    with_damage += whole.find(kReplacement) != std::string::npos;
  }
  EXPECT_GT(with_damage, 1000);
}

TEST(Decode, RoundTripsRandomText) {
  const CounterRandom random("round trip", 1);
  std::uint64_t next = 0;
  const auto below = [&](std::uint64_t n) { return random.bits(next++) % n; };
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (std::uint64_t i = below(60); i > 0; --i) {
      const char32_t limits[] = {0x80, 0x400, 0x3400, 0x110000};
      const auto c = static_cast<char32_t>(below(limits[below(4)]));
      if (c < 0xD800 || c > 0xDFFF) text::append_utf8(text, c);
    }
    const std::string normalized = text::nfc(text);
    const Ids ids = tiny().encode(text);
    EXPECT_EQ(tiny().decode(ids), normalized);
    EXPECT_EQ(streamed(ids), normalized);
  }
}

TEST(Decode, StreamHoldsAnUnfinishedCharacterBack) {
  StreamDecoder decoder(tiny());
  const Ids emoji = ids_of_bytes("\xF0\x9F\x98\x80");
  EXPECT_EQ(decoder.push(emoji[0]), "");
  EXPECT_EQ(decoder.push(emoji[1]), "");
  EXPECT_EQ(decoder.push(emoji[2]), "");
  EXPECT_EQ(decoder.push(emoji[3]), "\U0001F600");
  EXPECT_EQ(decoder.push(emoji[0]), "");
  EXPECT_EQ(decoder.push(ids_of_bytes("x")[0]),
            std::string(kReplacement) + "x");  // it will not come any more
  EXPECT_EQ(decoder.push(emoji[0]), "");
  EXPECT_EQ(decoder.flush(), kReplacement);
  EXPECT_EQ(decoder.push(ids_of_bytes("y")[0]), "y");
}

TEST(Decode, StreamIsUnchangedByARefusedToken) {
  StreamDecoder decoder(tiny());
  const Ids e_acute = ids_of_bytes("\xC3\xA9");
  EXPECT_EQ(decoder.push(e_acute[0]), "");
  expect_error(ErrorCode::invalid_argument, "token id 99999", [&] { decoder.push(99999); });
  EXPECT_EQ(decoder.push(e_acute[1]), "\u00E9");
}

TEST(Decode, LeavesSpecialTokensOutWhenAsked) {
  const Ids ids = tiny().encode("<|im_start|>user<|im_end|>");
  EXPECT_EQ(tiny().decode(ids), "<|im_start|>user<|im_end|>");
  EXPECT_EQ(tiny().decode(ids, true), "user");
  EXPECT_EQ(streamed(ids, true), "user");
}

TEST(Decode, RefusesIdsOutsideTheVocabulary) {
  const TokenId size = tiny().vocab_size();
  EXPECT_EQ(size, 2048);
  for (TokenId id :
       {TokenId{-1}, size, std::numeric_limits<TokenId>::max(), std::numeric_limits<TokenId>::min()}) {
    EXPECT_FALSE(tiny().contains(id));
    const std::string part = "token id " + std::to_string(id) + ": expected";
    expect_error(ErrorCode::invalid_argument, part, [&] { tiny().decode(Ids{0, id}); });
    expect_error(ErrorCode::invalid_argument, "below 2048", [&] { tiny().token_bytes(id); });
    expect_error(ErrorCode::invalid_argument, part, [&] { tiny().is_special(id); });
  }
  EXPECT_TRUE(tiny().contains(0));
  EXPECT_TRUE(tiny().contains(size - 1));
}

TEST(Decode, KnowsItsTokens) {
  EXPECT_EQ(tiny().id_of("<|endoftext|>"), 2045);
  EXPECT_EQ(tiny().id_of("<|im_end|>"), 2047);
  EXPECT_EQ(tiny().id_of("<|no_such|>"), std::nullopt);
  EXPECT_TRUE(tiny().is_special(2046));
  EXPECT_FALSE(tiny().is_special(0));
  EXPECT_EQ(tiny().token_bytes(0), "!");
  EXPECT_EQ(tiny().token_bytes(2047), "<|im_end|>");
  EXPECT_THAT(byte_tokens(), testing::Each(testing::Ge(0)));
}

TEST(Decode, KeepsTheContentOfAnAddedTokenAsItIs) {
  // Each of these letters also stands for another byte in the byte-level alphabet.
  const auto patch = nlohmann::json::parse(R"({"added_tokens": [{"id": 2045, "content": "\u00E9\u0120",
      "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false}]})");
  const auto tokenizer = Tokenizer::from_json(text_test::patched_tiny(patch), "letters");
  EXPECT_EQ(tokenizer.encode("\u00E9\u0120"), Ids{2045});
  EXPECT_EQ(tokenizer.decode(Ids{2045}), "\u00E9\u0120");
}

TEST(Decode, AllowsGapsBetweenIds) {
  const auto patch = nlohmann::json::parse(R"({"added_tokens": [{"id": 3000, "content": "<far>",
      "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}]})");
  const auto tokenizer = Tokenizer::from_json(text_test::patched_tiny(patch), "gaps");
  EXPECT_EQ(tokenizer.vocab_size(), 3001);
  EXPECT_FALSE(tokenizer.contains(2999));
  EXPECT_EQ(tokenizer.encode("<far>"), Ids{3000});
  expect_error(ErrorCode::invalid_argument, "token id 2999", [&] { tokenizer.decode(Ids{2999}); });
}

TEST(Decode, StreamOutlivesTheTokenizerItWasGiven) {
  auto tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(text_test::tiny_path()));
  StreamDecoder decoder(*tokenizer);
  tokenizer.reset();
  EXPECT_EQ(decoder.push(0), "!");
}

}  // namespace
}  // namespace tandem
