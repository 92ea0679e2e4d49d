#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/backend.hpp"
#include "graph/model/weight_sizes.hpp"
#include "graph/placement/placement.hpp"
#include "state/geometry.hpp"

namespace tandem {

/// A value that crosses from one backend to another before a node runs.
struct Crossing {
  ValueId value{};
  int from = 0;
  int to = 0;
};

/// What one (layer, part) takes and why it is where it is: a line of the printed plan.
struct PlanLine {
  int layer = kNoLayer;
  Part part = Part::embedding;
  int backend = 0;
  std::int64_t weight_bytes = 0;  ///< those that an earlier line has on the same backend are counted there
  std::int64_t state_bytes = 0;   ///< of one sequence over the whole context
  std::string reason;
};

/// A graph with a backend for every node: what runs where, what crosses, who holds which state. Plain data.
struct Plan {
  std::vector<int> node_backend;                 ///< by node
  std::vector<std::vector<Crossing>> crossings;  ///< by node: before it runs
  std::vector<int> state_home;                   ///< by layer
  std::vector<std::vector<int>> input_readers;   ///< by value: the backends that read it, if it is an input
  std::vector<bool> uses;                        ///< by backend: whether any node runs there
  /// By backend: whether any layer's state may live there. Empty: states stay where the plan has them.
  std::vector<bool> homes;
  /// By backend: whether it may run every node, embedding and head too, when another one is lost. Empty: none
  /// may. Those are homes in host memory.
  std::vector<bool> stand_ins;
  bool mirrored = false;        ///< sequences are copied to the host: stand-ins have room to rebuild one
  std::vector<PlanLine> lines;  ///< in order of execution
  std::vector<std::string> backend_names;
  std::int64_t crossings_per_step = 0;        ///< between backends; fewer when no logits are wanted
  std::int64_t crossing_bytes_per_token = 0;  ///< of values with a row for each token
  std::int64_t crossing_bytes_per_output =
      0;  ///< of values with a row for each token whose logits are wanted

  /// Whether layers may run elsewhere than this plan says, because their state has moved.
  bool movable() const { return !homes.empty(); }
  bool may_stand_in(int backend) const {
    return !stand_ins.empty() && stand_ins[static_cast<std::size_t>(backend)];
  }
};

/// Places every node of the graph. `context_tokens` is for the state's bytes in the lines.
Plan make_plan(const Graph& graph, const WeightSizes& sizes, const StateGeometry& geometry,
               const Placement& placement, std::vector<std::string> backend_names,
               std::int64_t context_tokens);

/// The same plan with layers' parts elsewhere: `where` gives the backend of a (layer, part) of the model.
/// Weights of the lines are those of `plan`.
Plan rerouted(const Graph& graph, const StateGeometry& geometry, const Plan& plan,
              const std::function<int(int layer, Part part)>& where);

/// The plan as a table for people: a line for each run of layers that look alike, and what crosses.
std::string to_text(const Plan& plan);

}  // namespace tandem
