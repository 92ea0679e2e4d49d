#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/text/split_pattern.hpp"
#include "tests/text/text_test_data.hpp"

namespace tandem::text {
namespace {

using testing::ElementsAre;

std::vector<std::string> words_of(std::string_view pattern, std::string_view text) {
  std::vector<std::string_view> words;
  SplitPattern(pattern, "test").split(std::vector{text}, words);
  return {words.begin(), words.end()};
}

std::string tiny_pattern() {
  const auto steps = text_test::read_json(text_test::tiny_path()).at("pre_tokenizer").at("pretokenizers");
  return steps.at(0).at("pattern").at("Regex").get<std::string>();
}

// The expected words are those of the Python package tokenizers 0.23.3, which matches with Oniguruma.

TEST(Split, TakesWhiteSpaceAsOnigurumaDoes) {
  const std::string pattern = tiny_pattern();
  EXPECT_THAT(words_of(pattern, "a \u180E"), ElementsAre("a", " \u180E"));  // U+180E is no white space
  EXPECT_THAT(words_of(pattern, "x\u180E\u180E y"), ElementsAre("x", "\u180E\u180E", " y"));
  EXPECT_THAT(words_of(pattern, "\u3000\u3000z 12"), ElementsAre("\u3000", "\u3000z", " ", "1", "2"));
  EXPECT_THAT(words_of("\\S+", "a\u180Eb c"), ElementsAre("a\u180Eb", " ", "c"));
}

TEST(Split, IgnoresCaseByUnicodesRules) {
  EXPECT_THAT(words_of(tiny_pattern(), "we'LL '\u017Fx"), ElementsAre("we", "'LL", " '", "\u017Fx"));
  EXPECT_THAT(words_of("(?i:'s)", "a'\u017F"), ElementsAre("a", "'\u017F"));  // U+017F is a long s
}

TEST(Split, PassesOverEmptyMatches) {
  EXPECT_THAT(words_of("x+", "axxb"), ElementsAre("a", "xx", "b"));
  EXPECT_THAT(words_of("b+|(?=z)", "abzb"), ElementsAre("a", "b", "z", "b"));
  EXPECT_THAT(words_of("x+", ""), ElementsAre());
}

TEST(Split, CutsEachTextOnItsOwn) {
  std::vector<std::string_view> words;
  SplitPattern("a+", "test").split(std::vector<std::string_view>{"ba", "ab"}, words);
  EXPECT_THAT(words, ElementsAre("b", "a", "a", "b"));
}

}  // namespace
}  // namespace tandem::text
