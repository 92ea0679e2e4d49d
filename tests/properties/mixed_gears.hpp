#pragma once

#include <memory>
#include <string>

#include "graph/model/model.hpp"
#include "tests/properties/model_runs.hpp"

namespace tandem {

inline constexpr int kMixedLayers = 48;

/// A model of kMixedLayers narrow layers of random weights whose groups have all gears, beside each other in
/// one layer too. Its vocabulary is that of the shipped model. Made once.
std::shared_ptr<const Model> mixed_gears_model();

/// Tokens of its runs: more than one chunk of 64.
inline constexpr std::size_t kGearTokens = 70;
RunOptions mixed_run(const std::string& place = "cpu", std::int64_t chunk = 64);

}  // namespace tandem
