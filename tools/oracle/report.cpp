#include "tools/oracle/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::tools {

void OracleReport::compare(std::string name, std::span<const double> ours, std::span<const double> oracle,
                           double tolerance) {
  OracleLine line{std::move(name), static_cast<std::int64_t>(oracle.size()), 0, 0, tolerance, false};
  if (ours.size() != oracle.size() || oracle.empty()) {
    line.max_difference = std::numeric_limits<double>::infinity();
    return add(std::move(line));
  }
  for (std::size_t i = 0; i < oracle.size(); ++i) {
    const double difference = std::abs(ours[i] - oracle[i]);
    line.max_difference = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                                 : std::max(line.max_difference, difference);
    line.max_value = std::max(line.max_value, std::abs(oracle[i]));
  }
  line.ok = line.max_rel() <= tolerance;
  add(std::move(line));
}

void OracleReport::exact(std::string name, std::int64_t elements, std::int64_t different) {
  add({std::move(name), elements, static_cast<double>(different), 0, 0, elements > 0 && different == 0});
}

void OracleReport::absolute(std::string name, double ours, double oracle, double tolerance) {
  const double difference = std::abs(ours - oracle);
  // max_value stays 0, so that max_rel is the difference itself.
  add({std::move(name), 1, difference, 0, tolerance, difference <= tolerance});
}

bool OracleReport::ok() const {
  return !lines_.empty() &&
         std::all_of(lines_.begin(), lines_.end(), [](const OracleLine& line) { return line.ok; });
}

void OracleReport::add(OracleLine line) {
  if (show_) show_(line);
  lines_.push_back(std::move(line));
}

std::string header() {
  return fmt::format("{:<30} {:>9} {:>11} {:>11} {:>10} {:>10}  {}\n", "tensor", "elements", "max |diff|",
                     "max |value|", "max_rel", "tolerance", "verdict");
}

std::string to_text(const OracleLine& line) {
  if (line.tolerance == 0) {
    return fmt::format("{:<30} {:>9} {:>11} {:>11} {:>10} {:>10}  {}\n", line.name, line.elements,
                       fmt::format("{:.0f} differ", line.max_difference), "", "", "equal",
                       line.ok ? "ok" : "DIFFERENT");
  }
  return fmt::format("{:<30} {:>9} {:>11.3e} {:>11.3e} {:>10.2e} {:>10.0e}  {}\n", line.name, line.elements,
                     line.max_difference, line.max_value, line.max_rel(), line.tolerance,
                     line.ok ? "ok" : "OUT OF TOLERANCE");
}

}  // namespace tandem::tools
