#include "tools/html/chart.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tandem::tools::html {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count(const std::string& text, std::string_view what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(LogChart, ShowsDecadesOfWhatThereIs) {
  const std::string chart = log_chart("t", {{"a", {0, 2e-7, 0.5}}}, {}, 3);
  for (const char* label : {">1e-7<", ">1e-3<", ">1e0<", ">0 (same bits)<"})
    EXPECT_THAT(chart, HasSubstr(label));
  for (const char* label : {">1e-8<", ">1e1<"}) EXPECT_THAT(chart, Not(HasSubstr(label)));
  EXPECT_EQ(count(chart, "<circle"), 2u) << "a dot for each value that is not zero";
  EXPECT_THAT(chart, HasSubstr("<title>a, token 1: 2e-07</title>"));
}

TEST(LogChart, KeepsSeriesOfZerosApart) {
  const std::string chart = log_chart("t", {{"a", {0, 0}}, {"b", {0, 0}}}, {{1, "mark & title"}}, 2);
  EXPECT_EQ(count(chart, "<polyline"), 2u);
  EXPECT_EQ(count(chart, "<circle"), 0u);
  EXPECT_EQ(count(chart, "class=\"mark\""), 1u);
  EXPECT_THAT(chart, HasSubstr("mark &amp; title"));
  const std::size_t first = chart.find("points=\""), second = chart.find("points=\"", first + 1);
  EXPECT_NE(chart.substr(first, chart.find('"', first + 8) - first),
            chart.substr(second, chart.find('"', second + 8) - second));
}

TEST(LogChart, HasAPlaceForWhatIsNoNumber) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const std::string chart = log_chart("t", {{"a", {1e-300, kInfinite, 1}}}, {}, 3);
  EXPECT_THAT(chart, Not(HasSubstr("nan")));
  EXPECT_THAT(chart, HasSubstr("token 1: inf"));
  EXPECT_THAT(chart, HasSubstr(">1e-16<"));
  EXPECT_THAT(chart, Not(HasSubstr(">1e-17<")));
}

TEST(Charts, OfNothingAreAxes) {
  EXPECT_THAT(log_chart("t", {}, {}, 0), HasSubstr("token of the sequence"));
  EXPECT_THAT(timeline_chart({"t", {"a"}, {"cpu"}, {}, {}}, 5), Not(HasSubstr("box")));
}

TEST(TimelineChart, JoinsTokensOfAColour) {
  const Timeline timeline{
      "t", {"0 gdn", "1 gdn"}, {"cpu", "<gpu>"}, {{0, 0}, {1, 0}, {1, 0}}, {{0, {1, "missed"}}}};
  const std::string chart = timeline_chart(timeline, 3);
  EXPECT_EQ(count(chart, "class=\"box c"), 3u);
  for (const char* title :
       {"0 gdn, tokens 0 to 0: cpu", "0 gdn, tokens 1 to 2: &lt;gpu&gt;", "1 gdn, tokens 0 to 2: cpu"})
    EXPECT_THAT(chart, HasSubstr(title));
  EXPECT_EQ(count(chart, "missed"), 2u) << "the line and its flag";
}

}  // namespace
}  // namespace tandem::tools::html
