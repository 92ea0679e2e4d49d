#include "graph/residents.hpp"

#include <algorithm>
#include <set>

#include "core/error.hpp"

namespace tandem {

std::string to_string(const Piece& piece) {
  if (piece.layer == kNoLayer) return piece.part ? fmt::format("the {}", name(*piece.part)) : "no layer";
  const std::string layer = fmt::format("layer {}", piece.layer);
  return piece.part ? fmt::format("{}'s {}", layer, name(*piece.part)) : layer;
}

Residents::Residents(const Model& model, std::vector<Backend*> backends)
    : model_(model), backends_(std::move(backends)), held_(backends_.size()) {
  for (Held& held : held_) {
    held.weights.resize(model.graph().weights().size());
    held.nodes.resize(model.graph().nodes().size());
  }
}

std::vector<Residents::Use> Residents::uses_of(const Piece& piece, int backend) const {
  const std::vector<Node>& nodes = model_.graph().nodes();
  std::vector<Use> uses;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (piece.has(nodes[n])) uses.push_back({static_cast<std::size_t>(backend), n});
  }
  if (uses.empty()) fail(ErrorCode::invalid_argument, "the model has nothing like {}", to_string(piece));
  return uses;
}

std::vector<std::pair<std::size_t, WeightId>> Residents::missing_for(std::span<const Use> uses) const {
  std::set<std::pair<std::size_t, WeightId>> seen;
  std::vector<std::pair<std::size_t, WeightId>> missing;  // in the order of the nodes
  for (const Use& use : uses) {
    for (WeightId id : model_.graph().nodes()[use.node].weights) {
      if (!holds(static_cast<int>(use.backend), id) && seen.insert({use.backend, id}).second)
        missing.emplace_back(use.backend, id);
    }
  }
  return missing;
}

void Residents::load_for(std::span<const Use> uses, const LoadWatch& watch) {
  const auto missing = missing_for(uses);
  std::int64_t done = 0, total = 0;
  for (const auto& [backend, id] : missing) total += model_.weight(id).view.bytes();
  std::vector<ResidentTensor> loaded;
  for (const auto& [backend, id] : missing) {
    if (watch.interrupted && watch.interrupted()) {
      fail(ErrorCode::interrupted, "interrupted after {} of {} bytes of weights", done, total);
    }
    loaded.push_back(model_.weight(id).load_on(*backends_[backend]));
    done += model_.weight(id).view.bytes();
    if (watch.progress) watch.progress(done, total);
  }
  // From here on nothing throws.
  for (std::size_t i = 0; i < missing.size(); ++i) {
    held_[missing[i].first].weights[static_cast<std::size_t>(missing[i].second)] = std::move(loaded[i]);
  }
  for (const Use& use : uses) held_[use.backend].nodes[use.node] = true;
  ++changes_;
}

void Residents::load(const Plan& plan, const LoadWatch& watch) {
  std::vector<Use> uses;
  for (std::size_t n = 0; n < plan.node_backend.size(); ++n) {
    uses.push_back({static_cast<std::size_t>(plan.node_backend[n]), n});
  }
  load_for(uses, watch);
}

void Residents::load(const Piece& piece, int backend, const LoadWatch& watch) {
  load_for(uses_of(piece, backend), watch);
}

bool Residents::needed(const Held& held, WeightId weight) const {
  const std::vector<Node>& nodes = model_.graph().nodes();
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const std::vector<WeightId>& ids = nodes[n].weights;
    if (held.nodes[n] && std::find(ids.begin(), ids.end(), weight) != ids.end()) return true;
  }
  return false;
}

void Residents::unload(const Piece& piece, int backend) {
  const std::vector<Use> uses = uses_of(piece, backend);
  Held& held = held_[static_cast<std::size_t>(backend)];
  ++changes_;
  for (const Use& use : uses) held.nodes[use.node] = false;
  for (const Use& use : uses) {
    for (WeightId id : model_.graph().nodes()[use.node].weights) {
      if (!needed(held, id)) held.weights[static_cast<std::size_t>(id)] = {};
    }
  }
}

void Residents::drop(int backend) {
  Held& held = held_[static_cast<std::size_t>(backend)];
  ++changes_;
  held.nodes.assign(held.nodes.size(), false);
  for (ResidentTensor& weight : held.weights) weight = {};
}

bool Residents::holds(const Piece& piece, int backend) const {
  return missing_for(uses_of(piece, backend)).empty();
}

void Residents::require(const Plan& plan, bool outputs) const {
  const std::vector<Node>& nodes = model_.graph().nodes();
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (!outputs && nodes[n].part == Part::head) continue;
    for (WeightId id : nodes[n].weights) {
      if (holds(plan.node_backend[n], id)) continue;
      const Piece piece =
          nodes[n].layer == kNoLayer ? Piece(nodes[n].part) : Piece(nodes[n].layer, nodes[n].part);
      fail(ErrorCode::not_resident,
           "{} is not loaded on {}, where the plan runs it; load it there first (nothing has been computed)",
           to_string(piece), plan.backend_names[static_cast<std::size_t>(plan.node_backend[n])]);
    }
  }
}

const ConstTensor& Residents::get(int backend, WeightId weight) const {
  if (!holds(backend, weight)) {
    fail(ErrorCode::not_resident,
         "{}: weight {} is not loaded there; load the layer first or run it where it is held",
         backends_[static_cast<std::size_t>(backend)]->info().name, model_.graph().weight(weight).name);
  }
  return at(backend, weight).view;
}

std::int64_t Residents::owned_bytes(int backend) const {
  std::int64_t bytes = 0;
  for (const ResidentTensor& tensor : held_[static_cast<std::size_t>(backend)].weights)
    bytes += tensor.owned_bytes;
  return bytes;
}

}  // namespace tandem
