#include "graph/placement/workspace.hpp"

#include <algorithm>

namespace tandem {
namespace {

constexpr std::int64_t kAlignment = 256;

/// Bytes of a value during the nodes [first, last].
struct Lifetime {
  std::size_t value = 0;
  std::size_t first = 0;
  std::size_t last = 0;
  std::int64_t bytes = 0;
  std::int64_t offset = -1;
};

std::int64_t value_bytes(const Value& value, const StepLimits& limits, DType real) {
  const std::int64_t rows = value.rows == Rows::tokens ? limits.tokens : limits.outputs;
  const auto element = static_cast<std::int64_t>(size_of(value.type == ValueType::real ? real : DType::i32));
  const std::int64_t bytes = checked_mul(checked_mul(rows, value.width, "workspace"), element, "workspace");
  return checked_add(bytes, kAlignment - 1, "workspace") / kAlignment * kAlignment;
}

std::vector<Lifetime> lifetimes(const Graph& graph, const Plan& plan, int backend, const StepLimits& limits,
                                DType real) {
  const std::size_t nodes = graph.nodes().size();
  std::vector<Lifetime> all(graph.values().size());
  std::vector<bool> used(all.size(), false);
  const auto touch = [&](ValueId id, std::size_t node) {
    const auto v = static_cast<std::size_t>(id);
    if (!used[v]) {
      all[v] = {v, graph.value(id).input ? 0 : node, node, value_bytes(graph.value(id), limits, real), -1};
    }
    used[v] = true;
    all[v].last = graph.value(id).input || node + 1 == nodes ? nodes : node;
  };
  for (std::size_t n = 0; n < nodes; ++n) {
    for (const Crossing& crossing : plan.crossings[n]) {
      if (crossing.from == backend) touch(crossing.value, n);  // alive at its source until it has crossed
    }
    const Node& node = graph.nodes()[n];
    const bool may_follow =
        plan.movable() && (node.layer != kNoLayer || plan.homes[static_cast<std::size_t>(backend)]);
    const bool here = plan.node_backend[n] == backend || may_follow;
    for (ValueId id : node.reads) {
      // What a layer here may have made is alive until whoever stays elsewhere has it.
      if (here || (plan.movable() && used[static_cast<std::size_t>(id)])) touch(id, n);
    }
    if (!here) continue;
    for (ValueId id : node.writes) touch(id, n);
  }
  std::vector<Lifetime> kept;
  for (std::size_t v = 0; v < all.size(); ++v) {
    if (used[v]) kept.push_back(all[v]);
  }
  return kept;
}

/// The lowest gap among the values alive at the same time that is wide enough.
std::int64_t lowest_gap(const std::vector<Lifetime>& placed, const Lifetime& wanted) {
  std::vector<const Lifetime*> together;
  for (const Lifetime& other : placed) {
    if (other.first <= wanted.last && wanted.first <= other.last) together.push_back(&other);
  }
  std::sort(together.begin(), together.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
  std::int64_t offset = 0;
  for (const Lifetime* other : together) {
    if (other->offset - offset >= wanted.bytes) break;
    offset = std::max(offset, other->offset + other->bytes);
  }
  return offset;
}

}  // namespace

WorkspaceLayout workspace_layout(const Graph& graph, const Plan& plan, int backend, const StepLimits& limits,
                                 DType real) {
  std::vector<Lifetime> wanted = lifetimes(graph, plan, backend, limits, real);
  std::stable_sort(wanted.begin(), wanted.end(), [](auto& x, auto& y) { return x.bytes > y.bytes; });
  std::vector<Lifetime> placed;
  WorkspaceLayout layout{std::vector<std::int64_t>(graph.values().size(), -1), 0};
  for (Lifetime& value : wanted) {
    value.offset = lowest_gap(placed, value);
    layout.bytes = std::max(layout.bytes, checked_add(value.offset, value.bytes, "workspace"));
    layout.offsets[value.value] = value.offset;
    placed.push_back(value);
  }
  return layout;
}

Workspace::Workspace(const Graph& graph, const Plan& plan, const std::vector<Backend*>& backends,
                     const StepLimits& limits) {
  for (std::size_t b = 0; b < backends.size(); ++b) {
    layouts_.push_back(workspace_layout(graph, plan, static_cast<int>(b), limits, backends[b]->info().real));
    const std::int64_t bytes = layouts_[b].bytes;
    memory_.push_back(bytes > 0 ? backends[b]->allocate(static_cast<std::size_t>(bytes)) : Buffer());
  }
}

bool Workspace::has(int backend, ValueId value) const {
  return layouts_[static_cast<std::size_t>(backend)].offsets[static_cast<std::size_t>(value)] >= 0;
}

void* Workspace::at(int backend, ValueId value) const {
  const auto b = static_cast<std::size_t>(backend);
  return static_cast<std::byte*>(memory_[b].data()) + layouts_[b].offsets[static_cast<std::size_t>(value)];
}

}  // namespace tandem
