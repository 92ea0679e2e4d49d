#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tandem::tools {

/// One comparison with an outside value.
struct OracleLine {
  std::string name;
  std::int64_t elements = 0;
  double max_difference = 0;
  double max_value = 0;  ///< of the oracle
  double tolerance = 0;  ///< on max_rel; 0: must be equal
  bool ok = false;

  /// max |difference| over max |value|.
  double max_rel() const { return max_value > 0 ? max_difference / max_value : max_difference; }
};

/// Lines as they are found. Each is passed on at once, so that long checks can be watched.
class OracleReport {
 public:
  explicit OracleReport(std::function<void(const OracleLine&)> show = {}) : show_(std::move(show)) {}

  /// Compares by max_rel. A different number of elements, or a NaN, is out of tolerance.
  void compare(std::string name, std::span<const double> ours, std::span<const double> oracle,
               double tolerance);
  /// Compares things that must be equal: `different` of `elements` are not.
  void exact(std::string name, std::int64_t elements, std::int64_t different);
  /// One number by its absolute difference.
  void absolute(std::string name, double ours, double oracle, double tolerance);

  const std::vector<OracleLine>& lines() const { return lines_; }
  bool ok() const;

 private:
  void add(OracleLine line);

  std::function<void(const OracleLine&)> show_;
  std::vector<OracleLine> lines_;
};

std::string header();
std::string to_text(const OracleLine& line);

}  // namespace tandem::tools
