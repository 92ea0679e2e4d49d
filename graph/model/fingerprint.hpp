#pragma once

#include <span>
#include <string>

#include "graph/model/graph.hpp"
#include "graph/model/weight_data.hpp"

namespace tandem {

/// 32 hexadecimal digits over names, shapes, types or gears, and samples of the weights (at most 4 KiB of
/// each: the first and the last bytes), so that a large model is not read whole. Random values that were not
/// made yet count as if they were.
std::string fingerprint_of(const Graph& graph, std::span<const WeightData> weights);

}  // namespace tandem
