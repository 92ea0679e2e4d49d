#pragma once

#include <cstdint>
#include <vector>

#include "core/backend.hpp"
#include "graph/placement/plan.hpp"

namespace tandem {

/// Rows that a step may have at most.
struct StepLimits {
  std::int64_t tokens = 64;
  std::int64_t outputs = 64;
};

/// Where each value of a graph lies in a backend's memory. Values whose lifetimes do not overlap share it;
/// inputs and the values of the last node are never reused within a step.
struct WorkspaceLayout {
  std::vector<std::int64_t> offsets;  ///< by value; -1: the backend neither writes nor reads it
  std::int64_t bytes = 0;             ///< of all
};

/// Computed from the plan alone, without memory; `real` is the backend's element type. Where a plan lets
/// layers move, the layout is that of a backend that runs all of them: it serves whichever run there.
WorkspaceLayout workspace_layout(const Graph& graph, const Plan& plan, int backend, const StepLimits& limits,
                                 DType real);

/// Memory for the values of a graph on each backend that writes or reads them, laid out as above.
class Workspace {
 public:
  Workspace(const Graph& graph, const Plan& plan, const std::vector<Backend*>& backends,
            const StepLimits& limits);

  /// Start of a value on a backend. REQUIRES: the backend writes or reads it.
  void* at(int backend, ValueId value) const;
  /// Whether the backend has the value at all.
  bool has(int backend, ValueId value) const;
  std::int64_t bytes(int backend) const {
    return static_cast<std::int64_t>(memory_[static_cast<std::size_t>(backend)].bytes());
  }

 private:
  std::vector<Buffer> memory_;            ///< by backend
  std::vector<WorkspaceLayout> layouts_;  ///< by backend
};

}  // namespace tandem
