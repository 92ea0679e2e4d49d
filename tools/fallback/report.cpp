#include "tools/fallback/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/arithmetic.hpp"
#include "tools/json_number.hpp"

namespace tandem::tools {
namespace {

using nlohmann::json;

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

std::string ms_text(const std::optional<double>& ms) { return ms ? fmt::format("{:.3f}", *ms) : "-"; }

std::string backends_line(const ObservedSession& session) {
  std::string text;
  for (std::size_t b = 0; b < session.backends.size(); ++b) {
    text += fmt::format("{}{} ({})", b > 0 ? ", " : "", session.backends[b], session.descriptions[b]);
  }
  return text;
}

std::string misses_line(const FallbackSetup& setup) {
  std::vector<std::string> words;
  for (const PlannedMiss& miss : setup.misses)
    words.push_back(fmt::format("layer {} at token {}", miss.layer, miss.token));
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

std::string policy_line(const PolicyResult& result, const FallbackSetup& setup) {
  const LogitDifference total = result.total();
  return fmt::format(
      "{:<15}{:<10}{:>4} of {:<5}{:>10} of {:<10}{:>9.3g}{:>10.3g}{:>10.3g}{:>7}{:>11}{:>10.3f}{:>9}{:>9}\n",
      name(result.policy), verdict(result, setup), result.tokens_equal, setup.new_tokens, total.different,
      total.elements, total.max_rel, total.kl, result.mean_kl(), result.events.size(), result.event_bytes(),
      result.event_ms(), ms_text(result.ms_before), ms_text(result.ms_after));
}

json curve_of(const PolicyResult& result) {
  json different = json::array(), max_rel = json::array(), kl = json::array();
  for (const LogitDifference& token : result.tokens) {
    different.push_back(token.different);
    max_rel.push_back(finite_or_null(token.max_rel));
    kl.push_back(finite_or_null(token.kl));
  }
  return {{"different", different}, {"max_rel", max_rel}, {"kl", kl}};
}

json policy_json(const PolicyResult& result, const FallbackReport& report) {
  const LogitDifference total = result.total();
  json events = json::array();
  for (const ResidencyEvent& event : result.events) events.push_back(to_json(event));
  json where = json::array();
  for (const std::vector<int>& homes : result.where) where.push_back(homes);
  return {{"policy", name(result.policy)},
          {"safe", is_safe(result.policy)},
          {"verdict", verdict(result, report.setup)},
          {"refused_at", or_null(result.refused_at)},
          {"refusal", result.refused_at ? json(result.refusal) : json()},
          {"tokens",
           {{"equal", result.tokens_equal},
            {"new", report.setup.new_tokens},
            {"in_state", result.tokens_in_state}}},
          {"logits",
           {{"elements", total.elements},
            {"different", total.different},
            {"max_rel", finite_or_null(total.max_rel)}}},
          {"kl", {{"max", finite_or_null(total.kl)}, {"mean", finite_or_null(result.mean_kl())}}},
          {"layers_different", result.layers_different},
          {"marked_unsafe", result.marked_unsafe},
          {"events", events},
          {"event_bytes", result.event_bytes()},
          {"event_ms", result.event_ms()},
          {"ms_per_token", {{"before", or_null(result.ms_before)}, {"after", or_null(result.ms_after)}}},
          {"by_token", curve_of(result)},
          {"where", where}};
}

/// What the table means, in the words that decide.
std::string closing_lines(const FallbackReport& report) {
  std::string text;
  for (const PolicyResult& result : report.policies) {
    if (result.refused_at)
      text += fmt::format("{}: refused at token {}: {}\n", name(result.policy), *result.refused_at,
                          result.refusal);
    if (!is_safe(result.policy) && result.total().different == 0)
      text += fmt::format("{}: nothing differs this time; no promise says so\n", name(result.policy));
    if (!is_safe(result.policy) && result.total().different > 0)
      text += fmt::format("{} is UNSAFE: it goes on from a zero state, and what comes after is wrong\n",
                          name(result.policy));
  }
  const auto safe = std::count_if(report.policies.begin(), report.policies.end(),
                                  [](const PolicyResult& r) { return is_safe(r.policy); });
  if (report.broken()) return text + "a policy that must leave no trace left one\n";
  return safe > 0 ? text +
                        "policies that must leave no trace: 0 elements of logits and states differ, no token "
                        "is lost or repeated\n"
                  : text;
}

}  // namespace

bool FallbackReport::broken() const {
  return std::any_of(policies.begin(), policies.end(),
                     [&](const PolicyResult& result) { return breaks_promise(result, setup); });
}

std::string verdict(const PolicyResult& result, const FallbackSetup& setup) {
  if (breaks_promise(result, setup)) return "DIFFERENT";
  if (!is_safe(result.policy)) return "UNSAFE";
  return result.refused_at ? "refused" : "same";
}

std::string to_text(const FallbackReport& report) {
  const FallbackSetup& setup = report.setup;
  std::string text = fmt::format("model     {} ({})\n", report.session.model, report.session.fingerprint);
  text += fmt::format("placement {}; states may live on {}\n", report.session.placement,
                      fmt::join(report.session.homes, ", "));
  text += fmt::format("backends  {}\n", backends_line(report.session));
  if (!report.stand_in.empty()) text += fmt::format("          {}\n", report.stand_in);
  text +=
      fmt::format("tokens    {} of the prompt, {} new ones chosen greedily; {:.3f} ms a token undisturbed\n",
                  setup.prompt.size(), setup.new_tokens, report.undisturbed.ms_per_token);
  text += fmt::format("misses    {}\n\n", misses_line(setup));
  text += fmt::format("{:<15}{:<10}{:<13}{:>18}{:>15}{:>10}{:>10}{:>7}{:>11}{:>10}{:>18}\n", "policy",
                      "result", "tokens equal", "logits that differ", "max_rel", "KL max", "KL mean",
                      "events", "bytes", "ms", "ms a token");
  text += fmt::format("{:>109}{:>9}{:>9}\n", "", "before", "after");
  for (const PolicyResult& result : report.policies) text += policy_line(result, setup);
  return text + "\n" + closing_lines(report);
}

json to_json(const FallbackReport& report) {
  json misses = json::array(), policies = json::array(), backends = json::array();
  for (const PlannedMiss& miss : report.setup.misses)
    misses.push_back({{"layer", miss.layer}, {"token", miss.token}});
  for (const PolicyResult& result : report.policies) policies.push_back(policy_json(result, report));
  for (std::size_t b = 0; b < report.session.backends.size(); ++b) {
    backends.push_back(
        {{"name", report.session.backends[b]}, {"description", report.session.descriptions[b]}});
  }
  const auto new_begin = report.undisturbed.ids.begin() + std::ssize(report.setup.prompt);
  return {{"format", "tandem-fallback"},
          {"version", kFallbackVersion},
          {"arithmetic_version", kArithmeticVersion},
          {"model", {{"name", report.session.model}, {"fingerprint", report.session.fingerprint}}},
          {"placement", report.session.placement},
          {"homes", report.session.homes},
          {"backends", backends},
          {"layers", report.session.layers},
          {"stand_in", report.stand_in.empty() ? json() : json(report.stand_in)},
          {"prompt_ids", report.setup.prompt},
          {"output_ids", std::vector<TokenId>(new_begin, report.undisturbed.ids.end())},
          {"seed", report.seed},
          {"misses", misses},
          {"undisturbed_ms_per_token", report.undisturbed.ms_per_token},
          {"policies", policies},
          {"broken", report.broken()}};
}

}  // namespace tandem::tools
