#include "tools/fallback/page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/html/chart.hpp"
#include "tools/html/html.hpp"

namespace tandem::tools {
namespace {

using html::element;
using html::escape;
using html::text_element;

std::string fact(std::string_view name, std::string_view value) {
  return text_element("dt", {}, name) + text_element("dd", {}, value) + "\n";
}

std::string facts(const FallbackReport& report) {
  const ObservedSession& session = report.session;
  std::string rows = fact("model", fmt::format("{} ({})", session.model, session.fingerprint));
  rows += fact("placement", session.placement);
  for (std::size_t b = 0; b < session.backends.size(); ++b)
    rows += fact(session.backends[b], session.descriptions[b]);
  if (!report.stand_in.empty()) rows += fact("note", report.stand_in);
  rows += fact("tokens", fmt::format("{} of the prompt, {} new ones chosen greedily",
                                     report.setup.prompt.size(), report.setup.new_tokens));
  rows += fact("undisturbed", fmt::format("{:.3f} ms a token", report.undisturbed.ms_per_token));
  return element("dl", {}, rows) + "\n";
}

std::string table_row(std::string_view cell, const std::vector<std::string>& texts,
                      std::string_view of_second) {
  std::string markup;
  for (std::size_t i = 0; i < texts.size(); ++i)
    markup += text_element(cell, {{"class", i == 1 ? of_second : ""}}, texts[i]);
  return element("tr", {}, markup) + "\n";
}

std::string table(const FallbackReport& report) {
  const auto ms = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.3f}", *value) : std::string("-");
  };
  std::string rows = table_row("th",
                               {"policy", "result", "tokens equal", "logits that differ", "max_rel", "KL max",
                                "KL mean", "events", "bytes", "ms", "ms a token before", "after"},
                               "");
  for (const PolicyResult& result : report.policies) {
    const LogitDifference total = result.total();
    const std::string found = verdict(result, report.setup);
    const bool good = found == "same" || found == "refused";
    rows += table_row(
        "td",
        {std::string(name(result.policy)),
         result.refused_at ? fmt::format("refused at token {}", *result.refused_at) : found,
         fmt::format("{} of {}", result.tokens_equal, report.setup.new_tokens),
         fmt::format("{} of {}", total.different, total.elements), fmt::format("{:.3g}", total.max_rel),
         fmt::format("{:.3g}", total.kl), fmt::format("{:.3g}", result.mean_kl()),
         fmt::format("{}", result.events.size()), fmt::format("{}", result.event_bytes()),
         fmt::format("{:.3f}", result.event_ms()), ms(result.ms_before), ms(result.ms_after)},
        good ? "good" : "bad");
  }
  return element("div", {{"class", "scroll"}}, element("table", {}, "\n" + rows)) + "\n";
}

std::vector<html::Mark> marks_of(const FallbackReport& report) {
  std::vector<html::Mark> marks;
  for (const PlannedMiss& miss : report.setup.misses)
    marks.push_back({miss.token, fmt::format("layer {} is missed before token {}", miss.layer, miss.token)});
  return marks;
}

template <class Of>
std::string divergence(const FallbackReport& report, const std::string& title, const Of& of) {
  std::vector<html::Series> all;
  for (const PolicyResult& result : report.policies) {
    html::Series series{std::string(name(result.policy)), {}};
    for (const LogitDifference& token : result.tokens) series.values.push_back(of(token));
    all.push_back(std::move(series));
  }
  return text_element("h3", {}, title) + html::log_chart(title, all, marks_of(report), report.setup.fed());
}

std::string timeline(const FallbackReport& report, const PolicyResult& result) {
  html::Timeline timeline;
  timeline.title = fmt::format("Where each layer's state was: {}", name(result.policy));
  for (std::size_t layer = 0; layer < report.session.layers.size(); ++layer)
    timeline.rows.push_back(fmt::format("{} {}", layer, report.session.layers[layer]));
  timeline.colours = report.session.backends;
  timeline.cells = result.where;
  const std::vector<html::Mark> marks = marks_of(report);
  for (std::size_t i = 0; i < marks.size(); ++i)
    timeline.marks.emplace_back(static_cast<std::size_t>(report.setup.misses[i].layer), marks[i]);
  const std::string note = result.refused_at
                               ? fmt::format("refused at token {}: {}", *result.refused_at, result.refusal)
                           : is_safe(result.policy) ? ""
                                                    : "UNSAFE: a layer that moves goes on from a zero state";
  return text_element("h3", {}, name(result.policy)) + (note.empty() ? "" : text_element("p", {}, note)) +
         html::timeline_chart(timeline, report.setup.fed());
}

std::string text_of(const FallbackReport& report) {
  if (report.prompt_text.empty() && report.output_text.empty()) return "";
  return element("blockquote", {}, text_element("b", {}, report.prompt_text) + escape(report.output_text)) +
         "\n";
}

}  // namespace

std::string to_html(const FallbackReport& report) {
  std::vector<std::string> policies;
  for (const PolicyResult& result : report.policies) policies.emplace_back(name(result.policy));
  std::string body = text_element("h1", {}, "What a miss does to a text") + facts(report) + text_of(report);
  body += text_element("p", {{"class", report.broken() ? "bad" : "good"}},
                       report.broken() ? "A policy that must leave no trace left one."
                                       : "Policies that must leave no trace left none: the same bits.");
  body += table(report) + text_element("h2", {}, "How far the logits went from the undisturbed ones") +
          html::legend(policies);
  body += divergence(report, "KL divergence of the next token's distribution, in nats",
                     [](const LogitDifference& token) { return token.kl; });
  body += divergence(report, "Largest difference of a logit over the largest logit (max_rel)",
                     [](const LogitDifference& token) { return token.max_rel; });
  body += text_element("h2", {}, "Where each layer's state was") + html::legend(report.session.backends);
  for (const PolicyResult& result : report.policies) body += timeline(report, result);
  return html::page("Fallback: " + report.session.model, html::chart_style() + html::report_style(),
                    "\n" + body);
}

}  // namespace tandem::tools
