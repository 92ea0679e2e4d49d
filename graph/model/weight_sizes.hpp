#pragma once

#include <cstdint>
#include <vector>

#include "graph/model/model.hpp"
#include "graph/model/model_files.hpp"

namespace tandem {

/// What a weight takes where it is loaded.
struct WeightSize {
  std::int64_t bytes = 0;  ///< as a backend gets it: a matrix in its gear, a vector as f32
  bool in_place = true;    ///< lies in host memory already, where a backend of host memory uses it

  bool operator==(const WeightSize&) const = default;

  /// Of the memory of a backend that loads it.
  std::int64_t owned_bytes(bool host_memory) const { return host_memory && in_place ? 0 : bytes; }
};

/// By WeightId.
using WeightSizes = std::vector<WeightSize>;

WeightSizes weight_sizes(const Model& model);

/// From the headers of the files alone. Throws Error(not_found) for a missing tensor, Error(mismatch) for one
/// of another size or type.
WeightSizes weight_sizes(const Graph& graph, const ModelFiles& files);

/// By the gears of the graph, without any files.
WeightSizes weight_sizes(const Graph& graph);

}  // namespace tandem
