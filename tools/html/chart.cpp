#include "tools/html/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/html/html.hpp"

namespace tandem::tools::html {
namespace {

constexpr double kWidth = 960, kLeft = 90, kRight = 16, kTop = 14, kBottom = 40;
constexpr double kDecade = 18;   ///< height of a factor of ten
constexpr double kZeroRow = 7;   ///< height of a series' row of zeros
constexpr double kRowMost = 16;  ///< height of a row of a timeline
constexpr double kRowsMost = 420;
constexpr int kLowestDecade = -16;

std::string colour(std::size_t index) { return fmt::format("c{}", index % kColours); }

/// Where tokens stand: each has a column.
class Columns {
 public:
  explicit Columns(std::int64_t tokens) : tokens_(std::max<std::int64_t>(tokens, 1)) {}

  double width() const { return (kWidth - kLeft - kRight) / static_cast<double>(tokens_); }
  double begin(std::int64_t token) const { return kLeft + width() * static_cast<double>(token); }
  double middle(std::int64_t token) const { return begin(token) + width() / 2; }

  /// The axis below, with a label at every so many tokens.
  std::string axis(double y, const std::string& title = Axis().title) const {
    std::string markup = line(kLeft, y, kWidth - kRight, y, "axis");
    const std::int64_t step = tick_step();
    for (std::int64_t token = 0; token < tokens_; token += step) {
      markup += line(middle(token), y, middle(token), y + 4, "axis");
      markup += text_element("text",
                             {{"x", number(middle(token))},
                              {"y", number(y + 16)},
                              {"class", "label"},
                              {"text-anchor", "middle"}},
                             fmt::format("{}", token));
    }
    return markup + text_element("text",
                                 {{"x", number((kLeft + kWidth - kRight) / 2)},
                                  {"y", number(y + 32)},
                                  {"class", "label"},
                                  {"text-anchor", "middle"}},
                                 title);
  }

  static std::string line(double x1, double y1, double x2, double y2, std::string_view of_class) {
    return element("line", {{"x1", number(x1)},
                            {"y1", number(y1)},
                            {"x2", number(x2)},
                            {"y2", number(y2)},
                            {"class", of_class}});
  }

 private:
  /// 1, 2 or 5 times a power of ten, for 16 labels at most.
  std::int64_t tick_step() const {
    std::int64_t power = 1;
    for (;; power *= 10) {
      for (std::int64_t factor : {1, 2, 5}) {
        if (tokens_ / (factor * power) <= 16) return factor * power;
      }
    }
  }

  std::int64_t tokens_;
};

std::string row_label(double y, std::string_view text) {
  return text_element(
      "text", {{"x", number(kLeft - 6)}, {"y", number(y + 4)}, {"class", "label"}, {"text-anchor", "end"}},
      text);
}

std::string svg(double height, const std::string& title, const std::string& markup) {
  return element("svg",
                 {{"xmlns", "http://www.w3.org/2000/svg"},
                  {"viewBox", fmt::format("0 0 {} {}", number(kWidth), number(height))},
                  {"role", "img"},
                  {"aria-label", title}},
                 "\n" + markup) +
         "\n";
}

/// The vertical axis: decades, and rows of zeros below.
class LogScale {
 public:
  explicit LogScale(const std::vector<Series>& series) : rows_(series.size()) {
    double low = std::numeric_limits<double>::infinity(), high = 0;
    for (const Series& one : series) {
      for (double value : one.values) {
        if (!(value > 0) || !std::isfinite(value)) continue;
        low = std::min(low, value);
        high = std::max(high, value);
      }
    }
    if (high == 0) return;  // nothing but zeros: the decades that there are by default
    low_ = std::max(kLowestDecade, static_cast<int>(std::floor(std::log10(low))));
    high_ = std::max(low_ + 1, static_cast<int>(std::ceil(std::log10(high))));
  }

  double zero_top() const { return kTop + kDecade * (high_ - low_) + 10; }
  double bottom() const { return zero_top() + kZeroRow * static_cast<double>(rows_) + 6; }

  /// What is no number, or too large to be one, is at the very top; what is below the scale, at its end.
  double y(double value, std::size_t row) const {
    if (value == 0) return zero_top() + kZeroRow * (static_cast<double>(row) + 0.5) + 3;
    const double decade = std::isfinite(value) ? std::clamp<double>(std::log10(value), low_, high_) : high_;
    return kTop + kDecade * (high_ - decade);
  }

  std::string axis() const {
    std::string markup;
    for (int decade = low_; decade <= high_; ++decade) {
      const double at = kTop + kDecade * (high_ - decade);
      markup += Columns::line(kLeft, at, kWidth - kRight, at, "grid");
      markup += row_label(at, fmt::format("1e{}", decade));
    }
    markup += element("rect", {{"x", number(kLeft)},
                               {"y", number(zero_top())},
                               {"width", number(kWidth - kLeft - kRight)},
                               {"height", number(bottom() - zero_top())},
                               {"class", "zero"}});
    return markup + row_label((zero_top() + bottom()) / 2, "0 (same bits)");
  }

 private:
  std::size_t rows_;
  int low_ = -8, high_ = 0;
};

std::string series_markup(const Series& series, std::size_t index, const LogScale& scale,
                          const Columns& columns, const std::string& unit) {
  std::string points, dots;
  for (std::size_t t = 0; t < series.values.size(); ++t) {
    const double x = columns.middle(static_cast<std::int64_t>(t)), y = scale.y(series.values[t], index);
    points += fmt::format("{}{},{}", points.empty() ? "" : " ", number(x), number(y));
    if (series.values[t] == 0) continue;
    dots += element(
        "circle", {{"cx", number(x)}, {"cy", number(y)}, {"r", "2.5"}, {"class", "dot " + colour(index)}},
        text_element("title", {}, fmt::format("{}, {} {}: {:.3g}", series.name, unit, t, series.values[t])));
  }
  const double last = series.values.empty() ? 0 : series.values.back();
  return element("polyline", {{"points", points}, {"class", "line " + colour(index)}},
                 text_element("title", {}, fmt::format("{}, at the end {:.3g}", series.name, last))) +
         dots + "\n";
}

std::string mark_markup(const Mark& mark, const Columns& columns, double top, double bottom) {
  const double x = columns.begin(mark.token);
  return element("line",
                 {{"x1", number(x)},
                  {"y1", number(top)},
                  {"x2", number(x)},
                  {"y2", number(bottom)},
                  {"class", "mark"}},
                 text_element("title", {}, mark.title)) +
         "\n";
}

}  // namespace

std::string report_style() {
  return R"(
body { color: var(--ink); background: var(--paper); font: 15px/1.5 system-ui, sans-serif; max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; } h3 { font-size: 1rem; margin-bottom: 0.2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.7rem; text-align: right; border-bottom: 1px solid var(--faint); white-space: nowrap; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
dl { display: grid; grid-template-columns: max-content auto; gap: 0.1rem 1rem; } dt { opacity: 0.7; } dd { margin: 0; }
.bad { color: var(--k4); font-weight: 600; } .good { color: var(--k2); } blockquote { margin-left: 0; }
)";
}

std::string chart_style() {
  return R"(
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #ffffff; --faint: #d9dce1; --soft: #f0f2f5;
  --k0: #2f6fb7; --k1: #d1662b; --k2: #2e8b57; --k3: #8a5cc2; --k4: #c0304f; --k5: #7a7a2c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --paper: #16181b; --faint: #3a3f46; --soft: #22262b;
    --k0: #6cabf0; --k1: #f0935f; --k2: #63c48f; --k3: #b694ea; --k4: #f07a90; --k5: #c6c66a; } }
svg { display: block; width: 100%; max-width: 60rem; height: auto; }
svg text { fill: var(--ink); font: 11px system-ui, sans-serif; }
.axis { stroke: var(--ink); } .grid { stroke: var(--faint); } .zero { fill: var(--soft); }
.mark { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 4 3; } .flag { fill: var(--ink); }
.line { fill: none; stroke-width: 1.8; } .dot { stroke: none; } .box { stroke: none; }
.c0 { --k: var(--k0); } .c1 { --k: var(--k1); } .c2 { --k: var(--k2); }
.c3 { --k: var(--k3); } .c4 { --k: var(--k4); } .c5 { --k: var(--k5); }
.line { stroke: var(--k); } .dot, .box { fill: var(--k); } .key { background: var(--k); }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 0.3rem 1.2rem; }
.key { display: inline-block; width: 0.9em; height: 0.9em; margin-right: 0.4em; vertical-align: -0.1em; }
)";
}

std::string log_chart(const std::string& title, const std::vector<Series>& series,
                      const std::vector<Mark>& marks, std::int64_t tokens, const Axis& axis) {
  const Columns columns(tokens);
  const LogScale scale(series);
  std::string markup = scale.axis() + columns.axis(scale.bottom(), axis.title) + "\n";
  for (const Mark& mark : marks) markup += mark_markup(mark, columns, kTop, scale.bottom());
  for (std::size_t i = 0; i < series.size(); ++i)
    markup += series_markup(series[i], i, scale, columns, axis.unit);
  return svg(scale.bottom() + kBottom, title, markup);
}

std::string timeline_chart(const Timeline& timeline, std::int64_t tokens) {
  const Columns columns(tokens);
  const auto rows = static_cast<double>(timeline.rows.size());
  const double row = std::min(kRowMost, kRowsMost / rows);
  const auto label_every = static_cast<std::size_t>(std::ceil(10 / row));
  const auto top_of = [&](std::size_t r) { return kTop + row * static_cast<double>(r); };
  std::string markup;
  for (std::size_t r = 0; r < timeline.rows.size(); ++r) {
    if (r % label_every == 0) markup += row_label(top_of(r) + row / 2, timeline.rows[r]);
    for (std::size_t first = 0, end = 0; first < timeline.cells.size(); first = end) {
      const int what = timeline.cells[first][r];
      while (end < timeline.cells.size() && timeline.cells[end][r] == what) ++end;
      const auto c = static_cast<std::size_t>(what);
      markup += element("rect",
                        {{"x", number(columns.begin(static_cast<std::int64_t>(first)))},
                         {"y", number(top_of(r) + row * 0.06)},
                         {"width", number(columns.width() * static_cast<double>(end - first))},
                         {"height", number(row * 0.88)},
                         {"class", "box " + colour(c)}},
                        text_element("title", {},
                                     fmt::format("{}, tokens {} to {}: {}", timeline.rows[r], first, end - 1,
                                                 timeline.colours[c])));
    }
    markup += "\n";
  }
  const double bottom = kTop + row * rows;
  for (const auto& [r, mark] : timeline.marks) {
    markup += mark_markup(mark, columns, kTop, bottom);
    const double x = columns.begin(mark.token), y = top_of(r);
    markup += element(
        "path",
        {{"d", fmt::format("M{} {} l7 {} l-7 {} z", number(x), number(y), number(row / 2), number(row / 2))},
         {"class", "flag"}},
        text_element("title", {}, mark.title));
  }
  return svg(bottom + kBottom, timeline.title, markup + columns.axis(bottom));
}

std::string legend(const std::vector<std::string>& names) {
  std::string items;
  for (std::size_t i = 0; i < names.size(); ++i) {
    items += element("li", {}, element("span", {{"class", "key " + colour(i)}}, " ") + escape(names[i]));
  }
  return element("ul", {{"class", "legend"}}, items) + "\n";
}

}  // namespace tandem::tools::html
