#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.hpp"

namespace tandem::tools {

/// Of measured values.
struct Spread {
  double median = 0, min = 0, max = 0;
};
/// REQUIRES: at least one value.
Spread spread_of(std::vector<double> values);
nlohmann::json to_json(const Spread& spread);

/// Runs `body` once to warm up, which it is told, and `runs` times, with progress on a terminal. Throws
/// Error(interrupted) between runs when the user asks to stop, and what the body throws.
void repeat(std::int64_t runs, const std::function<void(bool is_warm_up)>& body);

/// Elements of which a bit differs. REQUIRES: as many bytes, whole elements.
std::int64_t count_different(std::span<const std::byte> a, std::span<const std::byte> b, DType type);

/// The time, UTC, as in 2026-01-31T12:00:00Z: a measurement says when it was made.
std::string time_now();

}  // namespace tandem::tools
