#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/backend.hpp"
#include "core/owned_mutex.hpp"
#include "core/weight_pool.hpp"
#include "graph/model/model.hpp"
#include "graph/placement/load_watch.hpp"
#include "graph/placement/plan.hpp"

namespace tandem {

/// Weights that come and go together: of a layer, of one part of a layer, of the embedding or of the head.
/// Not explicit, so that a caller writes the layer, the part, or both in braces.
struct Piece {
  Piece(int of_layer) : layer(of_layer) {}
  Piece(Part which) : part(which) {}
  Piece(int of_layer, Part which) : layer(of_layer), part(which) {}

  bool has(const Node& node) const { return node.layer == layer && (!part || node.part == *part); }

  int layer = kNoLayer;
  std::optional<Part> part;
};
/// "layer 3", "layer 3's mlp", "the head".
std::string to_string(const Piece& piece);

/// Which weights are loaded where. Backends are hit-only: a node runs only where its weights are. Weights in
/// 4 bits are in a pool of each backend, by sets: those of one part of a layer, or of the head. Not
/// thread-safe. The model and the backends outlive it; no step may run while it changes.
class Residents {
 public:
  /// With `verify`, weights that were copied are read again.
  Residents(const Model& model, std::vector<Backend*> backends, bool verify = false);

  /// Loads what the plan's nodes, or a piece's, need that is not loaded yet. All or nothing: after an Error
  /// everything is as before. Throws what Backend::load throws, Error(interrupted) when the watch says so,
  /// and Error(invalid_argument) when the model has no such piece, as all that take one; Error(mismatch) when
  /// a weight was read again and had changed. `lock` is what guards this, if something does: it is let go of
  /// while bytes are copied and the watch is told.
  void load(const Plan& plan, const LoadWatch& watch = {});
  void load(const Piece& piece, int backend, const LoadWatch& watch = {}, OwnedLock* lock = nullptr);

  /// Frees the weights of a piece; those that something else loaded there needs too (a head tied to the
  /// embedding) stay until that goes. No effect on what is not loaded.
  void unload(const Piece& piece, int backend);

  /// Forgets all weights of a backend that does not answer any more.
  void drop(int backend);

  bool holds(const Piece& piece, int backend) const;
  bool holds(int backend, WeightId weight) const;

  /// Grows whenever weights have come or gone.
  std::uint64_t changes() const { return changes_; }

  /// Throws Error(not_resident) naming the first part of a layer whose weights are not where the plan runs
  /// it. Without `outputs` the head does not run and is not looked at.
  void require(const Plan& plan, bool outputs) const;

  /// Throws Error(not_resident) naming the backend when the weight is not there.
  const ConstTensor& get(int backend, WeightId weight) const;

  /// Memory taken for weights on a backend; weights used in place take none.
  std::int64_t owned_bytes(int backend) const;

 private:
  /// A node that is to run on a backend.
  struct Use {
    std::size_t backend;
    std::size_t node;
  };
  /// What a backend has: weights, and which nodes they were loaded for.
  struct Held {
    std::vector<ResidentTensor> weights;                           ///< by WeightId; an empty view: not there
    WeightPool pool;                                               ///< those in 4 bits
    std::vector<std::optional<WeightPool::Reference>> references;  ///< by WeightId: to the pool's
    std::vector<bool> nodes;
  };
  using BackendWeight = std::pair<std::size_t, WeightId>;

  bool pooled(WeightId weight) const { return is_4_bit(model_.graph().weight(weight).gear); }
  std::vector<Use> uses_of(const Piece& piece, int backend) const;
  std::vector<BackendWeight> missing_for(std::span<const Use> uses) const;
  void load_for(std::span<const Use> uses, const LoadWatch& watch, OwnedLock* lock);
  void keep(const BackendWeight& where, ResidentTensor tensor);
  bool needed(const Held& held, WeightId weight) const;
  void free_weight(Held& held, WeightId weight);

  const Model& model_;
  std::vector<Backend*> backends_;
  bool verify_;
  std::vector<Held> held_;  ///< by backend
  std::uint64_t changes_ = 0;
};

}  // namespace tandem
