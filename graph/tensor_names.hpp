#pragma once

#include <string>
#include <vector>

namespace tandem {

/// The names under which a weight of the graph may stand in a file, likeliest first. A text-only save calls
/// its tensors "model.x", a multimodal one "model.language_model.x"; the head stands alone.
std::vector<std::string> tensor_names(const std::string& weight);

}  // namespace tandem
