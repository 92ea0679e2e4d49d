#include "core/text/stop_strings.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace tandem {
namespace {

struct Seen {
  std::string shown, found;
  bool operator==(const Seen&) const = default;
};

Seen see(const std::vector<std::string>& strings, std::string_view text, std::size_t piece) {
  StopStrings stop(strings);
  Seen seen;
  for (std::size_t i = 0; i < text.size(); i += piece) seen.shown += stop.push(text.substr(i, piece));
  seen.shown += stop.flush();
  seen.found = stop.found();
  return seen;
}

TEST(StopStrings, EndsBeforeTheFirstHoweverTheTextIsCut) {
  const auto expect = [](std::vector<std::string> strings, std::string_view text, const Seen& expected) {
    for (std::size_t piece = 1; piece <= text.size(); ++piece) {
      const Seen seen = see(strings, text, piece);
      EXPECT_EQ(seen.shown, expected.shown) << text << " in pieces of " << piece;
      EXPECT_EQ(seen.found, expected.found) << text << " in pieces of " << piece;
    }
  };
  expect({}, "all of it", {"all of it", ""});
  expect({"END"}, "to the END of", {"to the ", "END"});
  expect({"END"}, "to the EN", {"to the EN", ""});
  expect({"aab"}, "aaaab", {"aa", "aab"});
  expect({"abc", "b"}, "abc", {"a", "b"});
  expect({"c", "bc"}, "abc", {"a", "bc"});
  expect({"abcd", "bc"}, "abce", {"a", "bc"});
  expect({"é!"}, "caf\xC3\xA9\xC3\xA9!", {"café", "é!"});
  expect({"\n\n"}, "one\ntwo\n\nthree", {"one\ntwo", "\n\n"});
}

TEST(StopStrings, HoldsBackWhatMayBeOne) {
  StopStrings stop({"STOP"});
  EXPECT_EQ(stop.push("go ST"), "go ");
  EXPECT_EQ(stop.push("ST"), "ST");
  EXPECT_EQ(stop.push("O"), "");
  EXPECT_EQ(stop.push("x"), "STOx");
  EXPECT_EQ(stop.push("STOP and"), "");
  EXPECT_EQ(stop.found(), "STOP");
  EXPECT_EQ(stop.push("more"), "");
  EXPECT_EQ(stop.flush(), "");
}

TEST(StopStrings, RefusesWhatNoTextContains) {
  EXPECT_THROW(StopStrings({"a", ""}), Error);
  EXPECT_THROW(StopStrings({"\xFF"}), Error);
}

}  // namespace
}  // namespace tandem
