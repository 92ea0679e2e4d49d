#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/placement/plan.hpp"
#include "graph/placement/workspace.hpp"
#include "state/budget.hpp"

namespace tandem {

/// What a plan takes of one backend's memory, in bytes, and what there is. Backends are judged one by one:
/// two that share a memory (the host's) each see all of it.
struct Footprint {
  std::int64_t weights = 0;   ///< that the backend makes its own copies of
  std::int64_t in_place = 0;  ///< weights that it uses where they are; not part of the total
  std::int64_t state = 0;     ///< slots and pages
  std::int64_t workspace = 0;
  std::int64_t tables = 0;  ///< rotary angles
  std::int64_t mirror = 0;  ///< copies of sequences on the host, whosever memory they are copies of
  std::uint64_t available = 0;

  std::uint64_t total() const {
    return static_cast<std::uint64_t>(weights + state + workspace + tables + mirror);
  }
  /// By how much it does not fit; 0 when it does.
  std::uint64_t missing() const { return total() > available ? total() - available : 0; }
};

/// How many layers' state each of the plan's backends has room for: all where any may live, else those that
/// the plan has there.
std::vector<LayerCapacity> layer_capacities(const StateGeometry& geometry, const Plan& plan);

/// By backend of the plan. Allocates nothing. Throws Error(invalid_argument) for sizes past 63 bits.
std::vector<Footprint> footprints(const Graph& graph, const WeightSizes& sizes, const StateGeometry& geometry,
                                  const Plan& plan, const std::vector<Backend*>& backends,
                                  const StateBudget& budget, const StepLimits& limits);

}  // namespace tandem
