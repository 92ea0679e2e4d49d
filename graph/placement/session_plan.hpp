#pragma once

#include <string>
#include <vector>

#include "core/context.hpp"
#include "graph/placement/footprint.hpp"
#include "graph/placement/session_options.hpp"

namespace tandem {

/// Everything about a session that is decided before anything is loaded or allocated.
struct SessionPlan {
  std::string placement;           ///< the rules; those that "auto" came to, too
  std::string note;                ///< one line for the user about what "auto" could not do; often empty
  std::vector<Backend*> backends;  ///< those that the plan uses or names as homes, in its numbering
  StateGeometry geometry;
  StateBudget budget;
  Residency residency = Residency::uniform;
  Plan plan;
  std::vector<Footprint> footprints;  ///< by backend

  bool fits() const;
};

/// Decides. Allocates and loads nothing, so that a large model is planned in milliseconds. A plan that does
/// not fit is returned all the same. Throws what Placement::parse throws; Error(unsupported) when placement
/// and homes mix backends of different element types, or a home is no backend; Error(invalid_argument) for a
/// context above the model's limit.
SessionPlan plan_session(const Context& context, const ModelConfig& config, const Graph& graph,
                         const WeightSizes& sizes, const SessionOptions& options);

/// Throws Error(out_of_memory) for the first backend on which the plan does not fit: what it needs, what is
/// available, and by how much that is too little.
void require_fit(const SessionPlan& planned);

}  // namespace tandem
