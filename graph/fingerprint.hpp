#pragma once

#include <span>
#include <string>

#include "core/tensor.hpp"
#include "graph/graph.hpp"

namespace tandem {

/// 32 hexadecimal digits over names, shapes, types and samples of the weights (at most 4 KiB of each: the
/// first and the last bytes), so that a large model is not read whole.
std::string fingerprint_of(const Graph& graph, std::span<const HostTensor> weights);

}  // namespace tandem
