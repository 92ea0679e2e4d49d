#pragma once

#include <span>

#include "graph/session/sampler.hpp"

namespace tandem {

/// Sampler::choose as its header defines it, step by step, by sorting everything. REQUIRES: no NaN.
Choice choose_by_definition(std::span<const float> logits, const SamplingOptions& options,
                            std::int64_t position, std::span<const TokenId> history = {});

}  // namespace tandem
