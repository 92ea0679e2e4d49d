#include "tools/fallback/difference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/numerics64.hpp"
#include "graph/session/sampler.hpp"

namespace tandem::tools {
namespace {

double kl_of(std::span<const float> p, std::span<const float> q) {
  const double p_sum = log_sum_exp(p), q_sum = log_sum_exp(q);
  double kl = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double log_p = p[i] - p_sum, log_q = q[i] - q_sum;
    kl += exp64(log_p) * (log_p - log_q);
  }
  return std::max(kl, 0.0);  // rounding can make it a little less
}

}  // namespace

LogitDifference difference_of(std::span<const float> undisturbed, std::span<const float> found) {
  LogitDifference result;
  result.elements = std::ssize(undisturbed);
  double largest = 0, value = 0;
  bool numbers = true;
  for (std::size_t i = 0; i < undisturbed.size(); ++i) {
    if (std::memcmp(&undisturbed[i], &found[i], sizeof(float)) == 0) {
      value = std::max(value, std::abs(static_cast<double>(undisturbed[i])));
      continue;
    }
    ++result.different;
    numbers = numbers && std::isfinite(undisturbed[i]) && std::isfinite(found[i]);
    value = std::max(value, std::abs(static_cast<double>(undisturbed[i])));
    largest = std::max(largest, std::abs(static_cast<double>(undisturbed[i]) - found[i]));
  }
  if (result.different == 0) return result;
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  result.max_rel = !numbers ? kInfinite : value > 0 ? largest / value : largest;
  result.kl = numbers ? kl_of(undisturbed, found) : kInfinite;
  return result;
}

}  // namespace tandem::tools
