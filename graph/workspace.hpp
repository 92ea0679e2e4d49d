#pragma once

#include <cstdint>
#include <vector>

#include "core/backend.hpp"
#include "graph/plan.hpp"

namespace tandem {

/// Rows that a step may have at most.
struct StepLimits {
  std::int64_t tokens = 64;
  std::int64_t outputs = 64;
};

/// Memory for the values of a graph on each backend that writes or reads them. Values whose lifetimes do not
/// overlap share memory; inputs and the values of the last node are never reused within a step.
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
  std::vector<Buffer> memory_;                      ///< by backend
  std::vector<std::vector<std::int64_t>> offsets_;  ///< by backend and value; -1: not there
};

}  // namespace tandem
