#include "graph/run/residents.hpp"

#include <algorithm>
#include <set>

#include "core/error.hpp"

namespace tandem {

std::string to_string(const Piece& piece) {
  if (piece.layer == kNoLayer) return piece.part ? fmt::format("the {}", name(*piece.part)) : "no layer";
  const std::string layer = fmt::format("layer {}", piece.layer);
  return piece.part ? fmt::format("{}'s {}", layer, name(*piece.part)) : layer;
}

namespace {

/// What a weight in 4 bits is loaded with.
std::string pool_set_of(const Weight& weight) {
  return to_string(weight.layer == kNoLayer ? Piece(*weight.group) : Piece(weight.layer, *weight.group));
}

std::vector<PoolSet> pool_sets(const Graph& graph) {
  std::vector<PoolSet> sets;
  for (const Weight& weight : graph.weights()) {
    if (!is_4_bit(weight.gear)) continue;
    const std::string name = pool_set_of(weight);
    auto set = std::find_if(sets.begin(), sets.end(), [&](auto& s) { return s.name == name; });
    if (set == sets.end()) set = sets.insert(sets.end(), {name, {}});
    set->tensors.push_back({weight.name, weight.shape});
  }
  return sets;
}

GivenSet& set_named(std::vector<GivenSet>& sets, const std::string& name) {
  const auto found = std::find_if(sets.begin(), sets.end(), [&](auto& set) { return set.name == name; });
  return found == sets.end() ? sets.emplace_back(GivenSet{name, {}}) : *found;
}

/// Reads a weight that was copied to a backend a second time, piece by piece.
void require_arrived(const WeightData& weight, const ResidentTensor& tensor, Backend& backend,
                     std::string_view name) {
  constexpr std::int64_t kPieceBytes = std::int64_t{1} << 20;
  if (tensor.owned_bytes == 0) return;  // used where it is
  const std::int64_t bytes = weight.view.bytes();
  std::vector<std::byte> sent, arrived;
  for (std::int64_t begin = 0; begin < bytes; begin += kPieceBytes) {
    const std::int64_t end = std::min(begin + kPieceBytes, bytes);
    sent.resize(static_cast<std::size_t>(end - begin));
    arrived.resize(sent.size());
    weight.read(begin, end, sent.data());
    backend.download(arrived.data(), static_cast<const std::byte*>(tensor.view.data) + begin, arrived.size());
    if (sent != arrived) {
      fail(ErrorCode::mismatch, "{}: weight {} changed on its way there (nothing was loaded)",
           backend.info().name, name);
    }
  }
}

/// Loads one weight after the other, and tells about it.
class Loading {
 public:
  Loading(const Model& model, const LoadWatch& watch, bool verify)
      : model_(model), watch_(watch), verify_(verify) {}

  void expect(WeightId id) { total_ += model_.weight(id).view.bytes(); }
  ResidentTensor load(WeightId id, Backend& backend) {
    if (watch_.interrupted && watch_.interrupted()) {
      fail(ErrorCode::interrupted, "interrupted after {} of {} bytes of weights", done_, total_);
    }
    ResidentTensor tensor = model_.weight(id).load_on(backend);
    if (verify_) require_arrived(model_.weight(id), tensor, backend, model_.graph().weight(id).name);
    done_ += model_.weight(id).view.bytes();
    if (watch_.progress) watch_.progress(done_, total_);
    return tensor;
  }
  GivenTensor given(WeightId id) {
    const ConstTensor& view = model_.weight(id).view;
    return {model_.graph().weight(id).name, view.dtype, view.shape,
            [this, id](Backend& backend) { return load(id, backend); }};
  }

 private:
  const Model& model_;
  const LoadWatch& watch_;
  bool verify_;
  std::int64_t done_ = 0, total_ = 0;
};

}  // namespace

Residents::Residents(const Model& model, std::vector<Backend*> backends, bool verify)
    : model_(model), backends_(std::move(backends)), verify_(verify) {
  const Graph& graph = model.graph();
  for (Backend* backend : backends_) {
    held_.push_back({std::vector<ResidentTensor>(graph.weights().size()),
                     WeightPool(*backend, pool_sets(graph)),
                     std::vector<std::optional<WeightPool::Reference>>(graph.weights().size()),
                     std::vector<bool>(graph.nodes().size())});
  }
}

bool Residents::holds(int backend, WeightId weight) const {
  const Held& held = held_[static_cast<std::size_t>(backend)];
  const auto id = static_cast<std::size_t>(weight);
  return pooled(weight) ? held.references[id].has_value() : static_cast<bool>(held.weights[id].view);
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

std::vector<Residents::BackendWeight> Residents::missing_for(std::span<const Use> uses) const {
  std::set<BackendWeight> seen;
  std::vector<BackendWeight> missing;  // in the order of the nodes
  for (const Use& use : uses) {
    for (WeightId id : model_.graph().nodes()[use.node].weights) {
      if (!holds(static_cast<int>(use.backend), id) && seen.insert({use.backend, id}).second)
        missing.emplace_back(use.backend, id);
    }
  }
  return missing;
}

void Residents::load_for(std::span<const Use> uses, const LoadWatch& watch, OwnedLock* lock) {
  const std::vector<BackendWeight> missing = missing_for(uses);
  Loading loading(model_, watch, verify_);
  std::vector<std::vector<GivenSet>> given(backends_.size());
  for (const auto& [backend, id] : missing) {
    loading.expect(id);
    if (pooled(id)) {
      set_named(given[backend], pool_set_of(model_.graph().weight(id))).tensors.push_back(loading.given(id));
    }
  }
  // The pools first: they refuse what is wrong before any memory is taken.
  std::vector<WeightPool::Staged> staged;
  std::vector<ResidentTensor> loaded;
  {
    const Released released(lock);
    for (std::size_t b = 0; b < backends_.size(); ++b) staged.push_back(held_[b].pool.stage(given[b]));
    for (const auto& [backend, id] : missing) {
      loaded.push_back(pooled(id) ? ResidentTensor{} : loading.load(id, *backends_[backend]));
    }
  }
  // From here on nothing throws.
  for (std::size_t b = 0; b < backends_.size(); ++b) held_[b].pool.commit(std::move(staged[b]));
  for (std::size_t i = 0; i < missing.size(); ++i) keep(missing[i], std::move(loaded[i]));
  for (const Use& use : uses) held_[use.backend].nodes[use.node] = true;
  ++changes_;
}

void Residents::keep(const BackendWeight& where, ResidentTensor tensor) {
  Held& held = held_[where.first];
  const auto id = static_cast<std::size_t>(where.second);
  if (pooled(where.second)) {
    held.references[id] = held.pool.reference(model_.graph().weight(where.second).name);
  } else {
    held.weights[id] = std::move(tensor);
  }
}

void Residents::load(const Plan& plan, const LoadWatch& watch) {
  std::vector<Use> uses;
  for (std::size_t n = 0; n < plan.node_backend.size(); ++n) {
    uses.push_back({static_cast<std::size_t>(plan.node_backend[n]), n});
  }
  load_for(uses, watch, nullptr);
}

void Residents::load(const Piece& piece, int backend, const LoadWatch& watch, OwnedLock* lock) {
  load_for(uses_of(piece, backend), watch, lock);
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
      if (!needed(held, id)) free_weight(held, id);
    }
  }
}

/// The sets of a pool belong to one part of a layer: none of their weights is needed when one is not.
void Residents::free_weight(Held& held, WeightId weight) {
  held.weights[static_cast<std::size_t>(weight)] = {};
  if (!pooled(weight)) return;
  held.references[static_cast<std::size_t>(weight)].reset();
  held.pool.remove(pool_set_of(model_.graph().weight(weight)));
}

void Residents::drop(int backend) {
  Held& held = held_[static_cast<std::size_t>(backend)];
  ++changes_;
  held.nodes.assign(held.nodes.size(), false);
  for (ResidentTensor& weight : held.weights) weight = {};
  held.pool.clear();
  held.references.assign(held.references.size(), std::nullopt);
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
  const Held& held = held_[static_cast<std::size_t>(backend)];
  const auto id = static_cast<std::size_t>(weight);
  return pooled(weight) ? held.pool.get(*held.references[id]) : held.weights[id].view;
}

std::int64_t Residents::owned_bytes(int backend) const {
  const Held& held = held_[static_cast<std::size_t>(backend)];
  std::int64_t bytes = held.pool.owned_bytes();
  for (const ResidentTensor& tensor : held.weights) bytes += tensor.owned_bytes;
  return bytes;
}

}  // namespace tandem
