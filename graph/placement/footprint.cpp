#include "graph/placement/footprint.hpp"

#include <algorithm>
#include <set>

#include "state/host_copy.hpp"

namespace tandem {
namespace {

void add_weights(const Graph& graph, const WeightSizes& sizes, const Plan& plan,
                 const std::vector<Backend*>& backends, std::vector<Footprint>& all) {
  std::set<std::pair<int, WeightId>> counted;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const int backend = plan.node_backend[n];
    const auto b = static_cast<std::size_t>(backend);
    for (WeightId id : graph.nodes()[n].weights) {
      if (!counted.insert({backend, id}).second) continue;
      const WeightSize& size = sizes[static_cast<std::size_t>(id)];
      const std::int64_t owned = size.owned_bytes(backends[b]->info().host_memory);
      all[b].weights = checked_add(all[b].weights, owned, "weights");
      all[b].in_place = checked_add(all[b].in_place, size.bytes - owned, "weights");
    }
  }
}

/// Cos and sin, each [context_tokens, pairs], on every backend.
std::int64_t table_bytes(const Graph& graph, DType real, std::int64_t context_tokens) {
  const std::int64_t elements = checked_mul(context_tokens, 2 * graph.rotary_pairs(), "rotary tables");
  return checked_mul(elements, static_cast<std::int64_t>(size_of(real)), "rotary tables");
}

/// Counted on the first stand-in, as that is the host.
void add_mirror(const StateGeometry& geometry, const Plan& plan, const StateBudget& budget,
                std::vector<Footprint>& all) {
  const auto host = std::find(plan.stand_ins.begin(), plan.stand_ins.end(), true);
  if (!plan.mirrored || host == plan.stand_ins.end()) return;
  all[static_cast<std::size_t>(host - plan.stand_ins.begin())].mirror =
      checked_mul(budget.sequences, HostCopy::bytes(geometry, budget.context_tokens), "mirror");
}

}  // namespace

std::vector<LayerCapacity> layer_capacities(const StateGeometry& geometry, const Plan& plan) {
  std::vector<LayerCapacity> result(plan.backend_names.size());
  for (std::size_t layer = 0; layer < geometry.layers.size(); ++layer) {
    LayerCapacity& capacity = result[static_cast<std::size_t>(plan.state_home[layer])];
    ++(geometry.layers[layer] == LayerKind::recurrent ? capacity.recurrent : capacity.kv);
  }
  for (std::size_t b = 0; b < plan.homes.size(); ++b) {
    if (plan.homes[b])
      result[b] = {geometry.count(LayerKind::recurrent), geometry.count(LayerKind::attention)};
  }
  for (std::size_t b = 0; plan.mirrored && b < plan.stand_ins.size(); ++b) {
    if (plan.stand_ins[b]) result[b].spare = 1;
  }
  return result;
}

std::vector<Footprint> footprints(const Graph& graph, const WeightSizes& sizes, const StateGeometry& geometry,
                                  const Plan& plan, const std::vector<Backend*>& backends,
                                  const StateBudget& budget, const StepLimits& limits) {
  std::vector<Footprint> all(backends.size());
  add_weights(graph, sizes, plan, backends, all);
  add_mirror(geometry, plan, budget, all);
  const std::vector<LayerCapacity> capacities = layer_capacities(geometry, plan);
  for (std::size_t b = 0; b < backends.size(); ++b) {
    const DType real = backends[b]->info().real;
    all[b].state = pool_sizes(geometry, capacities[b], budget).bytes;
    all[b].workspace = workspace_layout(graph, plan, static_cast<int>(b), limits, real).bytes;
    all[b].tables = table_bytes(graph, real, budget.context_tokens);
    all[b].available = backends[b]->available_bytes();
    // Each is below 2^63; the sum must be too.
    const std::int64_t rest = checked_add(all[b].tables, all[b].mirror, "memory");
    checked_add(checked_add(all[b].weights, all[b].state, "memory"),
                checked_add(all[b].workspace, rest, "memory"), "memory");
  }
  return all;
}

}  // namespace tandem
