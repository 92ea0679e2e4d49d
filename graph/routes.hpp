#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "graph/graph.hpp"
#include "graph/plan.hpp"
#include "graph/residents.hpp"
#include "state/geometry.hpp"

namespace tandem {

/// The plan of a step follows from where the states of its sequence live:
///  - a stateful part (gdn, attention) runs where its state lives;
///  - an mlp stays where the session's plan has it while its weights are loaded there; if they are not, it
///    goes beside its layer's state, provided that they are loaded there;
///  - embedding and head stay while their weights are loaded where the plan has them;
///  - what has no state and finds its weights at none of these places goes to a backend that may stand in for
///    others (Plan::stand_ins) and has them.
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
