#include "graph/footprint.hpp"

#include <set>

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

}  // namespace

std::vector<LayerCapacity> layer_capacities(const StateGeometry& geometry, const Plan& plan) {
  std::vector<LayerCapacity> result(plan.backend_names.size());
  for (std::size_t layer = 0; layer < geometry.layers.size(); ++layer) {
    LayerCapacity& capacity = result[static_cast<std::size_t>(plan.state_home[layer])];
    ++(geometry.layers[layer] == LayerKind::recurrent ? capacity.recurrent : capacity.kv);
  }
  for (std::size_t b = 0; b < plan.homes.size(); ++b) {
    if (plan.homes[b]) result[b] = {geometry.count(LayerKind::recurrent), geometry.count(LayerKind::kv)};
  }
  return result;
}

std::vector<Footprint> footprints(const Graph& graph, const WeightSizes& sizes, const StateGeometry& geometry,
                                  const Plan& plan, const std::vector<Backend*>& backends,
                                  const StateBudget& budget, const StepLimits& limits) {
  std::vector<Footprint> all(backends.size());
  add_weights(graph, sizes, plan, backends, all);
  const std::vector<LayerCapacity> capacities = layer_capacities(geometry, plan);
  for (std::size_t b = 0; b < backends.size(); ++b) {
    const DType real = backends[b]->info().real;
    all[b].state = pool_sizes(geometry, capacities[b], budget).bytes;
    all[b].workspace = workspace_layout(graph, plan, static_cast<int>(b), limits, real).bytes;
    all[b].tables = table_bytes(graph, real, budget.context_tokens);
    all[b].available = backends[b]->available_bytes();
    // Each is below 2^63; the sum must be too.
    checked_add(checked_add(all[b].weights, all[b].state, "memory"),
                checked_add(all[b].workspace, all[b].tables, "memory"), "memory");
  }
  return all;
}

}  // namespace tandem
