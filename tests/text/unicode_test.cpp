#include "core/text/unicode.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/random.hpp"
#include "core/text/byte_level.hpp"
#include "core/text/utf8.hpp"
#include "tests/text/text_test_data.hpp"

namespace tandem::text {
namespace {

TEST(Unicode, ComposesAsTheStandardSays) {
  struct Case {
    std::string text, nfc;
  };
  // From NormalizationTest.txt and annex 15: reordering, blocking, Hangul, singletons, composition
  // exclusions.
  const Case cases[] = {
      {"", ""},
      {"plain", "plain"},
      {"e\u0301", "\u00E9"},
      {"\u1E0A\u0323", "\u1E0C\u0307"},  // the dot below comes first
      {"D\u0307\u0323", "\u1E0C\u0307"},
      {"a\u0301\u0300", "\u00E1\u0300"},
      {"a\u0328\u0301\u0300", "\u0105\u0301\u0300"},
      {"a\u0334\u0301", "\u00E1\u0334"},  // a lower class does not block
      {"a\u0300\u0300", "\u00E0\u0300"},  // the same class does
      {"\u1100\u1161\u11A8", "\uAC01"},
      {"\uAC00\u11A8", "\uAC01"},
      {"\u212B", "\u00C5"},        // the angstrom sign is A with ring
      {"\u0958", "\u0915\u093C"},  // excluded from composition
      {"\uFB01", "\uFB01"},        // a compatibility form stays
      {"\u0344", "\u0308\u0301"},
      {"\U0001D15E", "\U0001D157\U0001D165"},
  };
  for (const Case& c : cases) EXPECT_EQ(nfc(c.text), c.nfc) << c.text;
}

TEST(Unicode, NfcOfNfcIsTheSame) {
  const CounterRandom random("nfc", 1);
  std::uint64_t next = 0;
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      const bool mark = random.bits(next++) % 2 == 0;
      append_utf8(text, static_cast<char32_t>(mark ? 0x300 + random.bits(next++) % 0x70
                                                   : 0x20 + random.bits(next++) % 0x600));
    }
    const std::string once = nfc(text);
    EXPECT_TRUE(text_test::is_utf8(once));
    EXPECT_EQ(nfc(once), once);
  }
}

TEST(Unicode, KnowsWhiteSpace) {
  int count = 0;
  for (char32_t c = 0; c < 0x110000; ++c) count += is_white_space(c);
  EXPECT_EQ(count, 25);  // PropList.txt
  for (char32_t c :
       {0x09, 0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2000, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}) {
    EXPECT_TRUE(is_white_space(c)) << static_cast<unsigned>(c);
  }
  EXPECT_FALSE(is_white_space(0x180E));
  EXPECT_FALSE(is_white_space(0x200B));
}

TEST(Utf8, WritesAndReadsEachCharacter) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string bytes;
    append_utf8(bytes, c);
    const Utf8Step step = utf8_step(bytes);
    ASSERT_EQ(step.kind, Utf8Kind::character) << static_cast<unsigned>(c);
    ASSERT_EQ(step.size, bytes.size());
    ASSERT_EQ(step.code_point, c);
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      ASSERT_EQ(utf8_step(std::string_view(bytes).substr(0, cut)).kind, Utf8Kind::truncated);
      ASSERT_EQ(first_ill_formed(std::string_view(bytes).substr(0, cut)), 0u);
    }
  }
}

TEST(Utf8, AgreesWithAnotherJudgeOnRandomBytes) {
  const CounterRandom random("utf8", 1);
  int well_formed = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    std::string bytes(1 + random.bits(2 * i) % 4, '\0');
    for (std::size_t k = 0; k < bytes.size(); ++k) {
      const auto byte = static_cast<unsigned char>(random.bits(2 * i + 1) >> (8 * k));
      bytes[k] = static_cast<char>(k == 0 ? byte | 0xC0 : (byte & 0xBF) | 0x80);
    }
    const bool good = !first_ill_formed(bytes).has_value();
    EXPECT_EQ(good, text_test::is_utf8(bytes));
    well_formed += good;
  }
  EXPECT_GT(well_formed, 1000);
}

TEST(ByteLevel, IsABijectionOfBytesAndCharacters) {
  std::string all, spelled;
  for (int byte = 0; byte < 256; ++byte) {
    all.push_back(static_cast<char>(byte));
    append_utf8(spelled, byte_level_character(static_cast<std::uint8_t>(byte)));
  }
  EXPECT_EQ(byte_level_bytes(spelled), all);
  EXPECT_EQ(byte_level_character(' '), char32_t{0x120});
  EXPECT_EQ(byte_level_character('\n'), char32_t{0x10A});
  EXPECT_EQ(byte_level_character(0xAD), char32_t{0x143});
  EXPECT_EQ(byte_level_bytes("a b"), std::nullopt);
  EXPECT_EQ(byte_level_bytes("\u0144"), std::nullopt);
  EXPECT_EQ(byte_level_bytes("\u4E2D"), std::nullopt);
}

}  // namespace
}  // namespace tandem::text
