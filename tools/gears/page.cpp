#include <fmt/format.h>

#include "core/shape.hpp"
#include "tools/gears/report.hpp"
#include "tools/html/chart.hpp"
#include "tools/html/html.hpp"

namespace tandem::tools {
namespace {

using html::element;
using html::text_element;

std::string cells(std::string_view cell, const std::vector<std::string>& texts) {
  std::string markup;
  for (const std::string& text : texts) markup += text_element(cell, {}, text);
  return element("tr", {}, markup) + "\n";
}

std::string wide_table(const std::string& rows) {
  return element("div", {{"class", "scroll"}}, element("table", {}, "\n" + rows)) + "\n";
}

std::string texts_table(const std::vector<TextResult>& results) {
  std::string rows = cells(
      "th", {"gears", "weights", "perplexity", "excess nats a token", "KL mean", "KL max", "greedy equal"});
  for (const TextResult& result : results) {
    rows += cells("td", {result.gears, human_bytes(static_cast<std::uint64_t>(result.weight_bytes)),
                         fmt::format("{:.6f}", result.perplexity),
                         fmt::format("{:.5f} ± {:.5f}", result.excess_nll, result.excess_error),
                         fmt::format("{:.3g}", result.kl_mean), fmt::format("{:.3g}", result.kl_max),
                         fmt::format("{} of {}", result.greedy_equal, result.tokens)});
  }
  return wide_table(rows);
}

std::string operators_table(const GearsReport& report, Gear gear) {
  std::string rows = cells("th", {"operator", "worst layer", "n", "max|f32|", "rms|f32|", "maxrel first",
                                  "rmsrel first", "rmsrel last", "uniform: maxrel first", "rmsrel first"});
  for (const WorstOperator& worst : worst_operators(report, gear)) {
    const OperatorError& e = worst.real;
    rows += cells("td",
                  {e.name, fmt::format("{}", worst.layer), fmt::format("{}", e.elements),
                   fmt::format("{:.4g}", e.max_f32), fmt::format("{:.4g}", e.rms_f32),
                   fmt::format("{:.3g}", e.max_rel_first), fmt::format("{:.3g}", e.rms_rel_first),
                   fmt::format("{:.3g}", e.rms_rel_last), fmt::format("{:.3g}", worst.uniform.max_rel_first),
                   fmt::format("{:.3g}", worst.uniform.rms_rel_first)});
  }
  return wide_table(rows);
}

/// The error of some operators over the layers that have them.
std::string layers_chart(const GearsReport& report, Gear gear) {
  std::vector<html::Series> series;
  for (const std::string_view name : kBudgetOperators) {
    html::Series one{std::string(name), {}};
    for (const LayerBudget& budget : report.layers) {
      if (budget.gear != gear) continue;
      for (const OperatorError& error : budget.real) {
        if (error.name == name) one.values.push_back(error.rms_rel_first);
      }
    }
    series.push_back(std::move(one));
  }
  const std::string title = fmt::format("rmsrel of the first token in {}", name(gear));
  const auto layers = static_cast<std::int64_t>(series.front().values.size());
  return text_element("h3", {}, title) +
         html::log_chart(title, series, {}, layers, {"Gated DeltaNet layer, counted from 0", "layer"});
}

std::string verdict_of(const GearsReport& report) {
  const std::vector<std::string> faults = report.faults();
  std::string items;
  for (const std::string& fault : faults) items += text_element("li", {}, fault);
  const std::string verdict =
      fmt::format("Magnitude gate, maxrel < {}: a detector of wrong wiring, not a grade of accuracy. {}",
                  kWiringGate, faults.empty() ? "Passed." : "Not passed.");
  return text_element("p", {{"class", faults.empty() ? "good" : "bad"}}, verdict) +
         (items.empty() ? "" : element("ul", {}, items));
}

}  // namespace

std::string to_html(const GearsReport& report) {
  std::string body = text_element("h1", {}, "What each gear costs in accuracy");
  body += text_element(
      "p", {},
      fmt::format("{} ({}), {} tokens on {}", report.model, report.fingerprint, report.tokens, report.place));
  body += verdict_of(report);
  for (const std::string& line : report.surprises()) body += text_element("p", {}, line);
  body += text_element("h2", {}, "The text, beside the model in f32") + texts_table(report.texts);
  if (!report.layer_texts.empty())
    body += text_element("h2", {}, "One layer at a time") + texts_table(report.layer_texts);
  body += text_element("h2", {}, "Gated DeltaNet layers, each given the x that f32 gives it");
  std::vector<std::string> names(std::begin(kBudgetOperators), std::end(kBudgetOperators));
  body += html::legend(names);
  for (const Gear gear : gears_in(report)) {
    body += layers_chart(report, gear);
    body += text_element("p", {},
                         "Each operator in the layer where it is worst, and the same layer with uniform "
                         "random activations of the same root mean square:");
    body += operators_table(report, gear);
  }
  return html::page("Gears: " + report.model, html::chart_style() + html::report_style(), "\n" + body);
}

}  // namespace tandem::tools
