#include "tools/html/html.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::tools::html {
namespace {

TEST(Html, EscapesWhatHasAMeaning) {
  EXPECT_EQ(escape("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
  EXPECT_EQ(escape("Zoë 你好\n\t"), "Zoë 你好\n\t");
  EXPECT_EQ(escape("&lt;"), "&amp;lt;");
}

TEST(Html, ReplacesWhatIsNoCharacter) {
  EXPECT_EQ(escape(std::string_view("a\0b\x1b"
                                    "c",
                                    5)),
            "a\uFFFDb\uFFFDc");
  EXPECT_EQ(escape("a\xff"
                   "b\xc3"),
            "a\uFFFDb\uFFFD");
}

TEST(Html, MakesElements) {
  EXPECT_EQ(element("br", {}), "<br/>");
  EXPECT_EQ(element("p", {{"class", "a\"b"}, {"id", ""}}, "<b>x</b>"), "<p class=\"a&quot;b\"><b>x</b></p>");
  EXPECT_EQ(text_element("p", {}, "<b>"), "<p>&lt;b&gt;</p>");
}

TEST(Html, WritesNumbersShortly) {
  EXPECT_EQ(number(1), "1");
  EXPECT_EQ(number(-0.001), "0");
  EXPECT_EQ(number(2.5), "2.5");
  EXPECT_EQ(number(10), "10");
  EXPECT_EQ(number(100.255), "100.25");
}

TEST(Html, MakesPages) {
  const std::string text = page("a & b", "p { color: red; }", "<p>x</p>");
  EXPECT_THAT(text, testing::StartsWith("<!DOCTYPE html>\n<html xmlns="));
  EXPECT_THAT(text, testing::HasSubstr("<title>a &amp; b</title><style>p { color: red; }</style>"));
  EXPECT_THAT(text, testing::EndsWith("<body><p>x</p></body></html>\n"));
}

}  // namespace
}  // namespace tandem::tools::html
