#include "tools/json_number.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace tandem::tools {

nlohmann::json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

}  // namespace tandem::tools
