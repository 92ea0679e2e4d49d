#pragma once

#include <string_view>
#include <vector>

#include "core/io/model_config.hpp"

namespace tandem {

/// The names of the dense Qwen3.5 models whose sizes are built in, smallest first: "0.8B" to "27B".
const std::vector<std::string_view>& published_geometries();

/// The config of one of them, for measuring and testing at real sizes without its weights. Throws
/// invalid_argument, listing the names, for any other name.
ModelConfig published_geometry(std::string_view name);

}  // namespace tandem
