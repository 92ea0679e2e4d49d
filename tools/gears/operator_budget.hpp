#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/gears/layer_values.hpp"

namespace tandem::tools {

/// How far one operator's values in a gear are from those in f32, of one token's elements.
struct OperatorError {
  std::string name;
  std::int64_t elements = 0;
  double max_f32 = 0;  ///< of the first token, as the next
  double rms_f32 = 0;
  double max_rel_first = 0;  ///< max |difference| over max |f32|; infinite where one is no number
  double rms_rel_first = 0;  ///< rms of the difference over rms of f32; likewise
  double rms_rel_last = 0;
};

/// In the order of kBudgetOperators. Throws Error(mismatch) when an operator is missing or has another size.
std::vector<OperatorError> operator_errors(const LayerValues& f32, const LayerValues& found);

/// The magnitude gate: a detector of wrong wiring, not a grade of accuracy. Swapped buffers, nibbles in
/// another order or a scale that belongs to a neighbour make values that have little to do with the right
/// ones, errors of the order of 1; 4-bit weights that are where they belong stay below this at the projection
/// itself. What comes after it, the recurrence above all, multiplies errors and is not looked at.
inline constexpr double kWiringGate = 0.1;
bool passes_gate(const OperatorError& error);

/// What the gate looks at: xc, z and out, each of a projection that is given the same as in f32. `errors` is
/// of a layer with all projections in the gear, `out_alone` of one with the last alone.
std::vector<OperatorError> projections_of(const std::vector<OperatorError>& errors,
                                          const std::vector<OperatorError>& out_alone);

/// beta and g come from weights that are in no 4-bit gear, so that they must be exactly as in f32: if not,
/// the two runs did not get the same x, and nothing that the probe says can be trusted.
bool probe_is_sound(const std::vector<OperatorError>& errors);

/// A layer in a gear: with the activations that the model gives it, and with uniform random ones of the same
/// root mean square, which flatter: they have no outliers.
struct LayerBudget {
  int layer = 0;
  Gear gear = Gear::q4;
  std::vector<OperatorError> real, uniform;
  std::vector<OperatorError> projections;  ///< with real activations, each given the same as in f32
};

/// x of the uniform run: as many values, between -a and a.
std::vector<float> uniform_like(std::span<const float> x, std::uint64_t seed);

}  // namespace tandem::tools
