#include "tools/gears/operator_budget.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/random.hpp"

namespace tandem::tools {
namespace {

struct Sums {
  double max_f32 = 0, max_difference = 0, squares_f32 = 0, squares_difference = 0;
  bool numbers = true;
  double count = 0;

  static double ratio(double difference, double value) { return value > 0 ? difference / value : difference; }
  double max_rel() const { return numbers ? ratio(max_difference, max_f32) : kInfinite; }
  double rms_rel() const {
    return numbers ? ratio(std::sqrt(squares_difference), std::sqrt(squares_f32)) : kInfinite;
  }
  double rms_f32() const { return std::sqrt(squares_f32 / std::max(count, 1.0)); }

  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
};

Sums sums_of(const std::vector<float>& f32, const std::vector<float>& found) {
  Sums sums;
  sums.count = static_cast<double>(f32.size());
  for (std::size_t i = 0; i < f32.size(); ++i) {
    const double value = f32[i], difference = static_cast<double>(found[i]) - value;
    sums.numbers = sums.numbers && std::isfinite(value) && std::isfinite(difference);
    sums.max_f32 = std::max(sums.max_f32, std::abs(value));
    sums.max_difference = std::max(sums.max_difference, std::abs(difference));
    sums.squares_f32 += value * value;
    sums.squares_difference += difference * difference;
  }
  return sums;
}

const std::vector<float>& values_of(const TokenValues& values, std::string_view name) {
  const auto found = values.find(name);
  if (found == values.end()) fail(ErrorCode::mismatch, "the layer has no operator '{}'", name);
  return found->second;
}

Sums compare(const TokenValues& f32, const TokenValues& found, std::string_view name) {
  const std::vector<float>& a = values_of(f32, name);
  const std::vector<float>& b = values_of(found, name);
  if (a.size() != b.size())
    fail(ErrorCode::mismatch, "operator '{}' has {} elements, in f32 {}", name, b.size(), a.size());
  return sums_of(a, b);
}

}  // namespace

std::vector<OperatorError> operator_errors(const LayerValues& f32, const LayerValues& found) {
  std::vector<OperatorError> errors;
  for (const std::string_view name : kBudgetOperators) {
    const Sums first = compare(f32.first, found.first, name), last = compare(f32.last, found.last, name);
    errors.push_back({std::string(name), static_cast<std::int64_t>(first.count), first.max_f32,
                      first.rms_f32(), first.max_rel(), first.rms_rel(), last.rms_rel()});
  }
  return errors;
}

bool passes_gate(const OperatorError& error) { return error.max_rel_first < kWiringGate; }

std::vector<OperatorError> projections_of(const std::vector<OperatorError>& errors,
                                          const std::vector<OperatorError>& out_alone) {
  std::vector<OperatorError> projections;
  for (const OperatorError& error : errors) {
    if (error.name == "xc" || error.name == "z") projections.push_back(error);
  }
  for (const OperatorError& error : out_alone) {
    if (error.name == "out") projections.push_back(error);
  }
  return projections;
}

bool probe_is_sound(const std::vector<OperatorError>& errors) {
  return std::all_of(errors.begin(), errors.end(), [](const OperatorError& e) {
    return (e.name != "beta" && e.name != "g") || (e.max_rel_first == 0 && e.rms_rel_last == 0);
  });
}

std::vector<float> uniform_like(std::span<const float> x, std::uint64_t seed) {
  double squares = 0;
  for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
  // Uniform in [-a, a] has the root mean square a / sqrt(3).
  const double a = std::sqrt(3.0 * squares / static_cast<double>(std::max<std::size_t>(x.size(), 1)));
  const CounterRandom random("uniform activations", seed);
  std::vector<float> uniform(x.size());
  for (std::size_t i = 0; i < uniform.size(); ++i)
    uniform[i] = static_cast<float>(a * (2 * random.uniform(i) - 1));
  return uniform;
}

}  // namespace tandem::tools
