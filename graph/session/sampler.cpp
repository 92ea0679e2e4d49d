#include "graph/session/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.hpp"
#include "core/numerics.hpp"
#include "core/random.hpp"

namespace tandem {
namespace {

/// Indices in order of falling logit, the lower index first among equals; at most `count` of them.
std::vector<std::int32_t> highest(std::span<const float> logits, std::size_t count) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), end, order.end(), before);
  order.erase(end, order.end());
  return order;
}

/// Running sums of exp((logit - highest) / temperature), in order.
std::vector<double> running_weights(std::span<const float> logits, const std::vector<std::int32_t>& order,
                                    float temperature) {
  const float top = logits[static_cast<std::size_t>(order.front())];
  std::vector<double> sums;
  sums.reserve(order.size());
  double sum = 0;
  for (std::int32_t id : order) {
    const float logit = logits[static_cast<std::size_t>(id)];
    const float distance =
        logit == top ? 0.0f : (logit - top) / temperature;  // equal infinities are no distance apart
    sum += static_cast<double>(num::exp(distance));
    sums.push_back(sum);
  }
  return sums;
}

}  // namespace

void require_numbers(std::span<const float> logits) {
  const auto nan = std::find_if(logits.begin(), logits.end(), [](float x) { return std::isnan(x); });
  if (nan != logits.end()) {
    fail(ErrorCode::corrupt, "the logit of token {} is not a number: the weights or the state are damaged",
         nan - logits.begin());
  }
}

void validate(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    fail(ErrorCode::invalid_argument, "temperature: expected a number >= 0, got {}", options.temperature);
  }
  if (options.top_k < 0)
    fail(ErrorCode::invalid_argument, "top-k: expected 0 (no limit) or more, got {}", options.top_k);
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    fail(ErrorCode::invalid_argument, "top-p: expected a number above 0 and up to 1, got {}", options.top_p);
  }
}

double log_sum_exp(std::span<const float> logits) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit) - highest);
  return std::log(sum) + highest;
}

TokenId choose_greedily(std::span<const float> logits) {
  require_numbers(logits);
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

TokenId choose(std::span<const float> logits, const SamplingOptions& options, std::int64_t position) {
  const auto temperature = static_cast<float>(options.temperature);
  if (temperature == 0) return choose_greedily(logits);
  require_numbers(logits);
  const std::size_t limit = options.top_k > 0 ? static_cast<std::size_t>(options.top_k) : logits.size();
  const std::vector<std::int32_t> order = highest(logits, limit);
  std::vector<double> sums = running_weights(logits, order, temperature);
  const double wanted = options.top_p * sums.back();
  const auto last = std::lower_bound(sums.begin(), sums.end(), wanted);
  if (last != sums.end()) sums.erase(last + 1, sums.end());
  const CounterRandom random("sample", options.seed);
  const double draw = random.uniform(static_cast<std::uint64_t>(position)) * sums.back();
  const auto chosen = std::upper_bound(sums.begin(), sums.end(), draw);
  return order[static_cast<std::size_t>(
      std::min(chosen - sums.begin(), static_cast<std::ptrdiff_t>(sums.size()) - 1))];
}

}  // namespace tandem
