#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/gears/operator_budget.hpp"
#include "tools/gears/text_budget.hpp"

namespace tandem::tools {

inline constexpr int kGearsVersion = 1;

/// All that `tandem check gears` found.
struct GearsReport {
  std::string model;
  std::string fingerprint;
  std::string place;
  std::int64_t tokens = 0;
  std::vector<LayerBudget> layers;
  std::vector<TextResult> texts;        ///< whole gears and mixes
  std::vector<TextResult> layer_texts;  ///< one layer in a 4-bit gear, the others as stored

  /// What is wrong, a line each; empty: nothing. An operator that does not pass the gate, a probe that is not
  /// sound.
  std::vector<std::string> faults() const;
  /// Gears that do better than their bits allow, and whether chance explains it; a line each.
  std::vector<std::string> surprises() const;
};

/// Of a gear, an operator's budget where it is worst: the layer with the largest max_rel of the first token.
struct WorstOperator {
  int layer = 0;
  OperatorError real, uniform;
};
std::vector<WorstOperator> worst_operators(const GearsReport& report, Gear gear);
/// The gears that the report has budgets of, each once.
std::vector<Gear> gears_in(const GearsReport& report);

std::string to_text(const GearsReport& report);
nlohmann::json to_json(const GearsReport& report);
/// A page that needs no other file.
std::string to_html(const GearsReport& report);

}  // namespace tandem::tools
