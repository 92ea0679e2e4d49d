#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "graph/model/graph.hpp"
#include "graph/placement/plan.hpp"
#include "graph/run/residents.hpp"
#include "state/geometry.hpp"

namespace tandem {

/// The plan of a step follows from where the states of its sequence live:
///  - a stateful part (gdn, attention) runs where its state lives;
///  - an mlp goes with its layer: where the layer's state is not where the session's plan has it, or the
///    weights of the mlp are not, it runs beside the state, provided that its weights are loaded there;
///  - embedding and head go with the first and the last layer in the same way;
///  - what finds its weights neither there nor where the session's plan has it goes to a backend that may
///    stand in for others (Plan::stand_ins) and has them;
///  - everything else stays where the session's plan has it.
/// The plan of a session whose layers cannot move is the only one. Plans are plain data; they are made when
/// homes are first met, and again after weights came or went.
///
/// Not thread-safe. Graph, plan and residents outlive it.
class Routes {
 public:
  Routes(const Graph& graph, const StateGeometry& geometry, const Plan& base, const Residents& residents)
      : graph_(graph), geometry_(geometry), base_(base), residents_(residents) {}

  /// The plan for these homes, one for each layer. Whether all weights are where it runs them is another
  /// question (Residents::require). REQUIRES: homes other than the base's only if that is movable.
  std::shared_ptr<const Plan> of(const std::vector<int>& homes);

 private:
  std::shared_ptr<const Plan> make(const std::vector<int>& homes) const;
  int place(const PlanLine& line, const std::vector<int>& homes) const;

  const Graph& graph_;
  const StateGeometry& geometry_;
  const Plan& base_;
  const Residents& residents_;
  std::map<std::vector<int>, std::shared_ptr<const Plan>> made_;  ///< by homes
  std::uint64_t made_for_ = 0;  ///< Residents::changes() when the plans were made
};

}  // namespace tandem
