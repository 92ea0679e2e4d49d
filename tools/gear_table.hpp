#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "graph/model/packed_files.hpp"
#include "graph/model/weight_sizes.hpp"

namespace tandem::tools {

/// Weights of one group and gear: of a model as backends get it.
struct GearRow {
  std::string group;  ///< as in PackedGroup
  std::string gear;
  int tensors = 0;
  std::int64_t bytes = 0;
};
/// In the order of the graph.
std::vector<GearRow> gear_rows(const Graph& graph, const WeightSizes& sizes);
nlohmann::json to_json(const std::vector<GearRow>& rows);
/// A line for each row.
std::string to_text(const std::vector<GearRow>& rows);

/// What was written, with the relative root mean square error of what was quantised.
nlohmann::json to_json(const std::vector<PackedGroup>& groups);
std::string to_text(const std::vector<PackedGroup>& groups);

}  // namespace tandem::tools
