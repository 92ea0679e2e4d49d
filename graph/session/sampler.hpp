#pragma once

#include <cstdint>
#include <span>

#include "core/text/token.hpp"

namespace tandem {

struct SamplingOptions {
  double temperature = 0;  ///< 0: greedy
  std::int64_t top_k = 0;  ///< 0: no limit
  double top_p = 1;        ///< 1: no limit
  std::uint64_t seed = 0;
};

/// Throws Error(invalid_argument) for a temperature that is negative or not finite, a negative top_k, or a
/// top_p outside (0, 1].
void validate(const SamplingOptions& options);

/// Throws Error(corrupt) when a logit is NaN: weights or state are damaged.
void require_numbers(std::span<const float> logits);

/// log sum exp of logits, in double: a logit less this is the log of its probability. REQUIRES: at least one.
double log_sum_exp(std::span<const float> logits);

/// The highest logit, the lowest index among equals. Throws as require_numbers.
TokenId choose_greedily(std::span<const float> logits);

/// Chooses the token at `position` of a sequence. In this order: divide by the temperature, keep the top_k
/// highest (the lower index first among equals), softmax, keep the shortest prefix whose probability reaches
/// top_p, draw. The draw is a pure function of (seed, position) and all arithmetic is core/numerics.hpp's, so
/// the same seed gives the same text on any machine, across rollback, migration and batching. Throws as
/// choose_greedily.
TokenId choose(std::span<const float> logits, const SamplingOptions& options, std::int64_t position);

}  // namespace tandem
