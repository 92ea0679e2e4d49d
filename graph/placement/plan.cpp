#include "graph/placement/plan.hpp"

#include <algorithm>
#include <set>

#include "core/error.hpp"

namespace tandem {
namespace {

/// Follows which backends have a current copy of each value.
class Copies {
 public:
  explicit Copies(std::size_t values) : where_(values) {}

  /// The crossing that `to` needs to read the value, if it does. Inputs are handed to every backend that
  /// reads them.
  bool needs(const Graph& graph, ValueId id, int to, Crossing& crossing) {
    std::vector<int>& where = where_[static_cast<std::size_t>(id)];
    if (graph.value(id).input || std::find(where.begin(), where.end(), to) != where.end()) return false;
    crossing = {id, where.front(), to};
    where.push_back(to);
    return true;
  }
  void produced(ValueId id, int backend) { where_[static_cast<std::size_t>(id)] = {backend}; }

 private:
  std::vector<std::vector<int>> where_;  ///< by value; the producer first
};

void count_crossing(const Value& value, DType real, Plan& plan) {
  const std::int64_t bytes = value.width * static_cast<std::int64_t>(size_of(real));
  (value.rows == Rows::tokens ? plan.crossing_bytes_per_token : plan.crossing_bytes_per_output) += bytes;
  ++plan.crossings_per_step;
}

using Where = std::function<int(int layer, Part part)>;

void note_input_reader(int backend, std::vector<int>& readers) {
  if (std::find(readers.begin(), readers.end(), backend) == readers.end()) readers.push_back(backend);
}

void place_nodes(const Graph& graph, const Where& where, DType real, Plan& plan) {
  Copies copies(graph.values().size());
  plan.input_readers.assign(graph.values().size(), {});
  plan.uses.assign(plan.backend_names.size(), false);
  for (const Node& node : graph.nodes()) {
    const int backend = where(node.layer, node.part);
    std::vector<Crossing> crossings;
    for (ValueId id : node.reads) {
      if (graph.value(id).input) note_input_reader(backend, plan.input_readers[static_cast<std::size_t>(id)]);
      Crossing crossing;
      if (!copies.needs(graph, id, backend, crossing)) continue;
      crossings.push_back(crossing);
      count_crossing(graph.value(id), real, plan);
    }
    for (ValueId id : node.writes) copies.produced(id, backend);
    plan.node_backend.push_back(backend);
    plan.uses[static_cast<std::size_t>(backend)] = true;
    plan.crossings.push_back(std::move(crossings));
    if (node.stateful) plan.state_home[static_cast<std::size_t>(node.layer)] = backend;
  }
}

std::int64_t state_bytes(const StateGeometry& geometry, int layer, std::int64_t context_tokens) {
  if (geometry.layers[static_cast<std::size_t>(layer)] == LayerKind::recurrent) {
    return geometry.recurrent_bytes() + geometry.conv_bytes();
  }
  return geometry.pages_for(context_tokens) * geometry.page_bytes();
}

void add_lines(const Graph& graph, const WeightSizes& sizes, const StateGeometry& geometry,
               const Placement& placement, std::int64_t context_tokens, Plan& plan) {
  std::set<std::pair<int, WeightId>> counted;
  for (const Node& node : graph.nodes()) {
    if (plan.lines.empty() || plan.lines.back().layer != node.layer || plan.lines.back().part != node.part) {
      const Place place = placement.of(node.layer, node.part);
      plan.lines.push_back({node.layer, node.part, place.backend, 0, 0, place.reason});
    }
    PlanLine& line = plan.lines.back();
    for (WeightId id : node.weights) {
      if (counted.insert({line.backend, id}).second)
        line.weight_bytes += sizes[static_cast<std::size_t>(id)].bytes;
    }
    if (node.stateful) line.state_bytes = state_bytes(geometry, node.layer, context_tokens);
  }
}

bool alike(const PlanLine& a, const PlanLine& b) {
  return a.part == b.part && a.backend == b.backend && a.weight_bytes == b.weight_bytes &&
         a.state_bytes == b.state_bytes && a.reason == b.reason;
}

std::string layer_text(int first, int last) {
  if (first == kNoLayer) return "-";
  return first == last ? fmt::format("{}", first) : fmt::format("{} .. {}", first, last);
}

std::string line_text(const Plan& plan, const PlanLine& line, const std::string& layers, int count) {
  return fmt::format("{:>10}  {:<10} {:>3}x {:<10} {:>12} {:>12}  {}\n", layers, name(line.part), count,
                     plan.backend_names[static_cast<std::size_t>(line.backend)],
                     human_bytes(static_cast<std::uint64_t>(line.weight_bytes * count)),
                     human_bytes(static_cast<std::uint64_t>(line.state_bytes * count)), line.reason);
}

}  // namespace

Plan make_plan(const Graph& graph, const WeightSizes& sizes, const StateGeometry& geometry,
               const Placement& placement, std::vector<std::string> backend_names,
               std::int64_t context_tokens) {
  Plan plan;
  plan.backend_names = std::move(backend_names);
  plan.state_home.assign(geometry.layers.size(), 0);
  const auto where = [&](int layer, Part part) { return placement.of(layer, part).backend; };
  place_nodes(graph, where, geometry.real, plan);
  add_lines(graph, sizes, geometry, placement, context_tokens, plan);
  return plan;
}

Plan rerouted(const Graph& graph, const StateGeometry& geometry, const Plan& plan, const Where& where) {
  Plan other;
  other.backend_names = plan.backend_names;
  other.homes = plan.homes;
  other.stand_ins = plan.stand_ins;
  other.mirrored = plan.mirrored;
  other.state_home = plan.state_home;
  place_nodes(graph, where, geometry.real, other);
  other.lines = plan.lines;
  for (PlanLine& line : other.lines) {
    const int backend = where(line.layer, line.part);
    if (backend != line.backend)
      line.reason = line.layer == kNoLayer ? "its weights are here" : "beside its state";
    line.backend = backend;
  }
  return other;
}

std::string to_text(const Plan& plan) {
  std::string text = fmt::format("{:>10}  {:<10} {:>4} {:<10} {:>12} {:>12}  {}\n", "layers", "part", "",
                                 "backend", "weights", "state", "reason");
  std::vector<bool> printed(plan.lines.size(), false);
  for (std::size_t i = 0; i < plan.lines.size(); ++i) {
    if (printed[i]) continue;
    int last = plan.lines[i].layer, count = 0;
    for (std::size_t j = i; j < plan.lines.size(); ++j) {
      if (printed[j] || !alike(plan.lines[i], plan.lines[j])) continue;
      printed[j] = true;
      last = plan.lines[j].layer;
      ++count;
    }
    text += line_text(plan, plan.lines[i], layer_text(plan.lines[i].layer, last), count);
  }
  text += fmt::format("crossings: {} a step, {} bytes a token, {} bytes an output row\n",
                      plan.crossings_per_step, plan.crossing_bytes_per_token, plan.crossing_bytes_per_output);
  return text;
}

}  // namespace tandem
