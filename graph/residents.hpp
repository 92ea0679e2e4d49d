#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "core/backend.hpp"
#include "graph/model.hpp"
#include "graph/plan.hpp"

namespace tandem {

/// Which weights are loaded where. Backends are hit-only: a node runs only where its weights are.
/// Not thread-safe. The backends outlive it.
class Residents {
 public:
  explicit Residents(std::vector<Backend*> backends)
      : backends_(std::move(backends)), held_(backends_.size()) {}

  /// Loads what the plan's nodes need that is not loaded yet. All or nothing: after an Error everything is as
  /// before.
  void load(const Model& model, const Plan& plan);

  bool holds(int backend, WeightId weight) const {
    return held_[static_cast<std::size_t>(backend)].contains(weight);
  }

  /// Throws Error(not_resident) naming the backend when the weight is not there.
  const ConstTensor& get(int backend, WeightId weight) const;

  /// Memory taken for weights on a backend; weights used in place take none.
  std::int64_t owned_bytes(int backend) const;

 private:
  std::vector<Backend*> backends_;
  std::vector<std::map<WeightId, ResidentTensor>> held_;  ///< by backend
};

}  // namespace tandem
