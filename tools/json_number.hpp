#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tandem::tools {

/// The number, or null for what is none: JSON has no word for it.
nlohmann::json finite_or_null(double value);

}  // namespace tandem::tools
