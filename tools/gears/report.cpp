#include "tools/gears/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/arithmetic.hpp"
#include "core/shape.hpp"
#include "tools/json_number.hpp"

namespace tandem::tools {
namespace {

using nlohmann::json;

json to_json(const OperatorError& error) {
  return {{"operator", error.name},
          {"n", error.elements},
          {"max_f32", finite_or_null(error.max_f32)},
          {"rms_f32", finite_or_null(error.rms_f32)},
          {"maxrel_first", finite_or_null(error.max_rel_first)},
          {"rmsrel_first", finite_or_null(error.rms_rel_first)},
          {"rmsrel_last", finite_or_null(error.rms_rel_last)}};
}

json to_json(const std::vector<OperatorError>& errors) {
  json list = json::array();
  for (const OperatorError& error : errors) list.push_back(to_json(error));
  return list;
}

json to_json(const TextResult& result) {
  return {{"gears", result.gears},
          {"weight_bytes", result.weight_bytes},
          {"perplexity", finite_or_null(result.perplexity)},
          {"kl_mean", finite_or_null(result.kl_mean)},
          {"kl_max", finite_or_null(result.kl_max)},
          {"excess_nll", finite_or_null(result.excess_nll)},
          {"excess_nll_error", finite_or_null(result.excess_error)},
          {"greedy_equal", result.greedy_equal},
          {"tokens", result.tokens}};
}

json to_json(const std::vector<TextResult>& results) {
  json list = json::array();
  for (const TextResult& result : results) list.push_back(to_json(result));
  return list;
}

std::string text_table(const std::vector<TextResult>& results) {
  std::string text = fmt::format("{:<24}{:>12}{:>13}{:>22}{:>12}{:>12}{:>14}\n", "gears", "weights",
                                 "perplexity", "excess nats a token", "KL mean", "KL max", "greedy equal");
  for (const TextResult& result : results) {
    const double equal = static_cast<double>(result.greedy_equal) / static_cast<double>(result.tokens);
    text +=
        fmt::format("{:<24}{:>12}{:>13.6f}{:>12.5f} +- {:.5f}{:>12.3g}{:>12.3g}{:>13.1f}%\n", result.gears,
                    human_bytes(static_cast<std::uint64_t>(result.weight_bytes)), result.perplexity,
                    result.excess_nll, result.excess_error, result.kl_mean, result.kl_max, 100 * equal);
  }
  return text;
}

std::string operator_table(const GearsReport& report, Gear gear) {
  std::string text = fmt::format(
      "\n{}, each operator where it is worst; with uniform random activations of the same size beside it\n"
      "{:<6}{:>6}{:>9}{:>12}{:>12}{:>14}{:>14}{:>13}{:>16}{:>16}\n",
      name(gear), "", "layer", "n", "max|f32|", "rms|f32|", "maxrel first", "rmsrel first", "rmsrel last",
      "uniform maxrel", "uniform rmsrel");
  for (const WorstOperator& worst : worst_operators(report, gear)) {
    const OperatorError& e = worst.real;
    text +=
        fmt::format("{:<6}{:>6}{:>9}{:>12.4g}{:>12.4g}{:>14.3g}{:>14.3g}{:>13.3g}{:>16.3g}{:>16.3g}\n",
                    e.name, worst.layer, e.elements, e.max_f32, e.rms_f32, e.max_rel_first, e.rms_rel_first,
                    e.rms_rel_last, worst.uniform.max_rel_first, worst.uniform.rms_rel_first);
  }
  return text;
}

double largest_projection_error(const GearsReport& report) {
  double largest = 0;
  for (const LayerBudget& budget : report.layers) {
    for (const OperatorError& error : budget.projections) largest = std::max(largest, error.max_rel_first);
  }
  return largest;
}

}  // namespace

std::vector<Gear> gears_in(const GearsReport& report) {
  std::vector<Gear> gears;
  for (const LayerBudget& budget : report.layers) {
    if (std::find(gears.begin(), gears.end(), budget.gear) == gears.end()) gears.push_back(budget.gear);
  }
  return gears;
}

std::vector<WorstOperator> worst_operators(const GearsReport& report, Gear gear) {
  std::vector<WorstOperator> worst;
  for (const LayerBudget& budget : report.layers) {
    if (budget.gear != gear) continue;
    for (std::size_t i = 0; i < budget.real.size(); ++i) {
      const WorstOperator candidate{budget.layer, budget.real[i], budget.uniform[i]};
      if (i == worst.size()) {
        worst.push_back(candidate);
      } else if (candidate.real.max_rel_first > worst[i].real.max_rel_first) {
        worst[i] = candidate;
      }
    }
  }
  return worst;
}

std::vector<std::string> GearsReport::surprises() const {
  constexpr double kChance = 2;       // standard errors
  constexpr double kRounding = 1e-6;  // nats: the same weights, added up in another order
  std::vector<std::string> lines;
  for (const std::vector<TextResult>* results : {&texts, &layer_texts}) {
    for (const TextResult& result : *results) {
      if (result.excess_nll > -kRounding) continue;
      const bool chance = -result.excess_nll < kChance * result.excess_error;
      lines.push_back(fmt::format(
          "{} predicts this text better than f32, by {:.5f} nats a token with a standard error of {:.5f}: {}",
          result.gears, -result.excess_nll, result.excess_error,
          chance ? "chance" : "more than chance explains; try another text before believing it"));
    }
  }
  return lines;
}

std::vector<std::string> GearsReport::faults() const {
  std::vector<std::string> lines;
  for (const LayerBudget& budget : layers) {
    if (!probe_is_sound(budget.real) || !probe_is_sound(budget.uniform)) {
      lines.push_back(
          fmt::format("layer {} in {}: beta and g are not exactly as in f32: the probe is not sound",
                      budget.layer, name(budget.gear)));
    }
    for (const OperatorError& error : budget.projections) {
      if (passes_gate(error)) continue;
      lines.push_back(
          fmt::format("layer {} in {}: the projection to {} has maxrel {:.3g}, expected less than {} of "
                      "rightly wired weights",
                      budget.layer, name(budget.gear), error.name, error.max_rel_first, kWiringGate));
    }
  }
  return lines;
}

std::string to_text(const GearsReport& report) {
  std::string text = text_table(report.texts);
  if (!report.layer_texts.empty()) text += "\none layer at a time\n" + text_table(report.layer_texts);
  for (const Gear gear : gears_in(report)) text += operator_table(report, gear);
  for (const std::string& line : report.surprises()) text += fmt::format("note: {}\n", line);
  const std::vector<std::string> faults = report.faults();
  for (const std::string& fault : faults) text += fault + "\n";
  return text + fmt::format(
                    "magnitude gate of the projections (largest maxrel {:.3g}, expected < {}; a detector of "
                    "wrong wiring, not a grade of accuracy): {}\n",
                    largest_projection_error(report), kWiringGate, faults.empty() ? "passed" : "NOT PASSED");
}

nlohmann::json to_json(const GearsReport& report) {
  json layers = json::array();
  for (const LayerBudget& budget : report.layers) {
    layers.push_back({{"layer", budget.layer},
                      {"gear", name(budget.gear)},
                      {"real", to_json(budget.real)},
                      {"uniform", to_json(budget.uniform)},
                      {"projections", to_json(budget.projections)}});
  }
  return {{"version", kGearsVersion},
          {"arithmetic_version", kArithmeticVersion},
          {"model", report.model},
          {"fingerprint", report.fingerprint},
          {"place", report.place},
          {"tokens", report.tokens},
          {"gate", kWiringGate},
          {"texts", to_json(report.texts)},
          {"one_layer", to_json(report.layer_texts)},
          {"layers", layers},
          {"surprises", report.surprises()},
          {"faults", report.faults()}};
}

}  // namespace tandem::tools
