#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem::tools {

/// Of measured values.
struct Spread {
  double median = 0, min = 0, max = 0;
};
/// REQUIRES: at least one value.
Spread spread_of(std::vector<double> values);
nlohmann::json to_json(const Spread& spread);

/// The time, UTC, as in 2026-01-31T12:00:00Z: a measurement says when it was made.
std::string time_now();

}  // namespace tandem::tools
