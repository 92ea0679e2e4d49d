#include "core/text/printable.hpp"

#include <gtest/gtest.h>

namespace tandem {
namespace {

using namespace std::string_view_literals;

TEST(Printable, LeavesTextAsItIs) {
  for (const std::string_view text : {""sv, "a b"sv, "caf\u00e9 \u4e2d \U0001F600"sv, "a\\b"sv}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, EscapesWhatATerminalActsOn) {
  EXPECT_EQ(printable("a\x1b[31m\n\t\0\x7f"sv), "a\\x1b[31m\\x0a\\x09\\x00\\x7f");
  EXPECT_EQ(printable("\u009b\u0080\u202e\u2028\u200f"sv), "\\u009b\\u0080\\u202e\\u2028\\u200f");
}

TEST(Printable, EscapesBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("a\xff\xc3z\xe4\xb8"sv), "a\\xff\\xc3z\\xe4\\xb8");
  EXPECT_EQ(printable("\xed\xa0\x80\xc0\xaf"sv), "\\xed\\xa0\\x80\\xc0\\xaf");
}

TEST(PrintableLines, KeepsLineFeedsAlone) { EXPECT_EQ(printable_lines("a\nb\r\n"), "a\nb\\x0d\n"); }

}  // namespace
}  // namespace tandem
