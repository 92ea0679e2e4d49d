#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/model/graph.hpp"

namespace tandem {

/// The names under which a weight of the graph may stand in a file, likeliest first. A text-only save calls
/// its tensors "model.x", a multimodal one "model.language_model.x"; the head stands alone.
std::vector<std::string> tensor_names(const std::string& weight);

/// The graph's weight of this name. Throws Error(not_found).
WeightId weight_named(const Graph& graph, std::string_view name);

/// The name for a new file: as a save of the text model alone has it.
std::string new_tensor_name(const std::string& weight);
/// The shape of a weight in a file: that of the convolution is [C, 1, K].
Shape stored_shape(const Weight& weight);

}  // namespace tandem
