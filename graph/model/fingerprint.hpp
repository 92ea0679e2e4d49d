#pragma once

#include <span>
#include <string>

#include "core/io/model_config.hpp"
#include "graph/model/graph.hpp"
#include "graph/model/weight_data.hpp"

namespace tandem {

/// 32 hexadecimal digits over what decides a bit: the arithmetic version (core/arithmetic.hpp), every field
/// of the configuration whose use is FieldUse::arithmetic, and of each weight its name, shape, and type or
/// gear. Of the values it covers vectors (norms, A_log, dt_bias, convolutions) whole, and of a matrix the
/// first and the last 2 KiB, so that a large model is not read whole. Random values that were not made yet
/// count as if they were.
std::string fingerprint_of(const ModelConfig& config, const Graph& graph,
                           std::span<const WeightData> weights);

}  // namespace tandem
