#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/sampling_options.hpp"
#include "core/text/token.hpp"

namespace tandem {

/// How a token is chosen. The definition below leaves nothing to an implementation: every sum is a sum of
/// whole numbers, so its order does not matter, and every machine gives the same token and the same
/// probability.
///
/// The order of the filters is that of the package `transformers` (and of vLLM): penalties, temperature,
/// top_k, top_p, min_p. Models publish their settings for this order. llama.cpp has the same order, but takes
/// the temperature last: there a high temperature does not widen what top_p and min_p keep.
///
///  1. Penalties. A token that occurs c > 0 times among the last repeat_last_n tokens of the sequence, prompt
///     included, has its logit x changed in float: x / repeat_penalty if x > 0, else x * repeat_penalty; then
///     x - (c * frequency_penalty + presence_penalty).
///  2. Temperature 0 (as a float): the highest logit, the lowest id among equals. Its probability is 1. The
///     steps below do not happen.
///  3. Distance. top is the highest logit. d = (top - x) / temperature in float, and 0 where x equals top
///     (so infinite logits can be chosen). "Before" means: the smaller d first, the lower id among equals.
///  4. top_k > 0 keeps the first top_k tokens. 0 keeps all.
///  5. Weight. w = e^-d by num::exp (core/numerics.hpp, 0.93 ULP), times 2^40, rounded to the nearest whole
///     number, ties to even. The best token has w = 2^40. A token of less than 2^-41 of the best token's
///     probability has w = 0 and is never chosen. A float's 24 bits suffice: the rounding of d alone moves a
///     probability by as much.
///  6. top_p < 1 keeps the shortest beginning whose weights reach need = ceil(P * sum / 2^53), where sum is
///     the sum of all weights that step 4 kept and P = floor(top_p * 2^53). At least one token. 1 keeps all.
///  7. min_p > 0 keeps tokens of w >= ceil(min_p * 2^40): of at least min_p times the best token's
///     probability. 0 keeps all.
///  8. Draw. total is the sum of the weights that are left, r the 64 random bits of (seed, position)
///     (core/random.hpp, stream "sample"), t = floor(r * total / 2^64). The chosen token is the first one, by
///     id, at which the sum of the weights of it and all lower ids exceeds t. Its probability is w / total.
struct Choice {
  TokenId id = 0;
  double probability = 1;  ///< among the tokens that the filters kept
};

/// Throws Error(invalid_argument) for a temperature that is negative or not finite, a negative top_k, a top_p
/// outside (0, 1], a min_p outside [0, 1], a repeat_penalty outside [1e-6, 1e6], a presence_penalty or
/// frequency_penalty outside [-1e6, 1e6], a repeat_last_n below -1.
void validate(const SamplingOptions& options);

/// How many of the last of `tokens` tokens the penalties look at; 0 when no penalty is set.
std::int64_t penalty_window(const SamplingOptions& options, std::int64_t tokens);
/// Throws Error(corrupt) when a logit is NaN: weights or state are damaged.
void require_numbers(std::span<const float> logits);

/// log sum exp of logits, in double: a logit less this is the log of its probability. REQUIRES: at least one.
double log_sum_exp(std::span<const float> logits);

/// The highest logit, the lowest index among equals. Throws as require_numbers.
TokenId choose_greedily(std::span<const float> logits);

/// Chooses tokens by the definition above, in time proportional to the vocabulary: nothing is sorted but a
/// few tokens around the end of what top_k and top_p keep. Keeps its memory (up to 36 bytes a token of the
/// vocabulary) between calls and nothing else: a choice depends on the arguments alone. Not thread-safe.
class Sampler {
 public:
  /// The token at `position` of a sequence, which is the number of tokens before it. `history`: these tokens,
  /// or at least the last penalty_window() of them. REQUIRES: valid options; at least one logit, at most
  /// 2^23. Throws as choose_greedily; Error(invalid_argument) for a token of the history that is no index of
  /// logits.
  Choice choose(std::span<const float> logits, const SamplingOptions& options, std::int64_t position,
                std::span<const TokenId> history = {});

 private:
  std::span<const float> penalised(std::span<const float> logits, const SamplingOptions& options,
                                   std::span<const TokenId> history);
  std::uint64_t last_of_top_k(std::size_t size, std::uint64_t top_k);
  std::size_t keep_top_k(std::size_t size, std::uint64_t top_k);
  Choice draw(std::size_t size, const SamplingOptions& options, std::int64_t position, std::uint64_t sum);
  std::span<const std::uint64_t> collect(std::size_t size, float least);
  Choice draw_any(std::size_t size, std::uint64_t random, std::uint64_t total) const;
  Choice draw_collected(std::span<const std::uint64_t> items, std::uint64_t random, std::uint64_t last,
                        std::uint64_t least) const;

  // Room, which only grows. Nothing in it outlasts a call but the zeros of counts_.
  std::vector<float> adjusted_;         ///< [vocab] logits after penalties
  std::vector<std::int32_t> counts_;    ///< [vocab] zeros between calls
  std::vector<float> distances_;        ///< [kept by top_k]
  std::vector<float> nearest_;          ///< [blocks] the smallest distance of each
  std::vector<float> ordered_;          ///< [blocks] the same, to be put in order
  std::vector<float> weights_;          ///< [kept by top_k] e^-d
  std::vector<std::uint64_t> sums_;     ///< [blocks of them]
  std::vector<TokenId> ids_;            ///< [kept by top_k] unless that is all
  std::vector<std::uint64_t> items_;    ///< tokens that may be kept, as distance and index, by index
  std::vector<std::uint64_t> scratch_;  ///< those that a selection still looks at
};

}  // namespace tandem
