#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// Charts over the tokens of a sequence as inline SVG, coloured by the classes of style() alone, so that they
/// follow the reader's colour scheme.
namespace tandem::tools::html {

inline constexpr int kColours = 6;  ///< classes c0 .. c5; further ones begin again

/// CSS of the charts, for light and dark.
std::string chart_style();
/// CSS of a page with text, tables and lists of facts around them, in the charts' colours.
std::string report_style();

/// What the columns of a chart are.
struct Axis {
  std::string title = "token of the sequence";
  std::string unit = "token";  ///< before a column's number
};

/// Something that happened before a token: a vertical mark.
struct Mark {
  std::int64_t token = 0;
  std::string title;
};

/// A value for each token from 0 on; there may be fewer than tokens. Not negative.
struct Series {
  std::string name;
  std::vector<double> values;
};

/// Values on a logarithmic scale. Zero has a place of its own below it, a row for each series, so that what
/// is nothing everywhere can be seen.
std::string log_chart(const std::string& title, const std::vector<Series>& series,
                      const std::vector<Mark>& marks, std::int64_t tokens, const Axis& axis = {});

/// A row for each `rows` name, a box for every run of tokens with the same colour.
struct Timeline {
  std::string title;
  std::vector<std::string> rows;
  std::vector<std::string> colours;                 ///< what a colour means, by its number
  std::vector<std::vector<int>> cells;              ///< by token and row: a colour
  std::vector<std::pair<std::size_t, Mark>> marks;  ///< with the row that they belong to
};
std::string timeline_chart(const Timeline& timeline, std::int64_t tokens);

/// Names beside their colours.
std::string legend(const std::vector<std::string>& names);

}  // namespace tandem::tools::html
