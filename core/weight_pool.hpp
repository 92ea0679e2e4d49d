#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend.hpp"

namespace tandem {

/// Weights in 4 bits that come and go together, as declared before anything is loaded: the projections of a
/// layer's mixer, those of its mlp, the head.
struct PoolSet {
  struct Tensor {
    std::string name;
    Shape shape;
  };
  std::string name;  ///< for messages: "layer 3's mlp"
  std::vector<Tensor> tensors;
};

/// What somebody wants to fill a set with: described first, so that everything can be refused before any
/// memory is taken, and loaded when it was found right.
struct GivenTensor {
  std::string name;
  DType dtype = DType::q4;
  Shape shape;
  std::function<ResidentTensor(Backend&)> load;
};
struct GivenSet {
  std::string name;
  std::vector<GivenTensor> tensors;
};

/// The 4-bit weights that one backend holds. What was declared in 4 bits is there in 4 bits, with exactly its
/// shape, or not at all: no set is there in part, and nothing stands in for a set that is not there. Not
/// thread-safe; the backend outlives it.
class WeightPool {
 public:
  /// A tensor as it was when the reference was made. It is stale as soon as its set was removed or the pool
  /// cleared, also when a tensor of the same name and shape is there again.
  class Reference {
    friend class WeightPool;
    Reference(std::size_t tensor, std::uint64_t generation) : tensor_(tensor), generation_(generation) {}
    std::size_t tensor_;
    std::uint64_t generation_;
  };

  /// Loaded sets that are not in the pool yet. Dropping them frees what was loaded.
  class Staged {
    friend class WeightPool;
    std::vector<std::pair<std::size_t, ResidentTensor>> tensors_;
  };

  /// Throws Error(invalid_argument) when a name comes twice, Error(mismatch) for a shape that 4 bits cannot
  /// have.
  WeightPool(Backend& backend, std::vector<PoolSet> declared);

  /// Checks all sets, then loads them; the pool itself stays as it is, whatever happens. Throws, before
  /// anything is loaded and naming set and tensor: Error(mismatch) for a tensor that is missing, of another
  /// shape or not in 4 bits; Error(invalid_argument) for one that the set has not, for one that is given
  /// twice (in f32 and in 4 bits, too), and for a set that was not declared, is given twice or is there
  /// already. Then what the loading throws.
  Staged stage(std::span<const GivenSet> sets) const;
  /// Puts them into the pool. REQUIRES: the pool has not changed since they were staged.
  void commit(Staged staged) noexcept;

  /// Frees a set; no effect when it is not there. Throws Error(invalid_argument) for one that was not
  /// declared.
  void remove(std::string_view set);
  void clear();

  /// Throws Error(not_resident) naming the tensor when its set is not there.
  Reference reference(std::string_view tensor) const;
  /// Throws Error(not_resident) naming the tensor when the reference is stale.
  const ConstTensor& get(const Reference& reference) const;

  /// Memory of the backend taken by what is there.
  std::int64_t owned_bytes() const;

 private:
  struct Entry {
    std::string name;
    std::size_t set;
    Shape shape;
    ResidentTensor resident;       ///< an empty view: not there
    std::uint64_t generation = 0;  ///< of what is there, or was last
  };

  std::size_t set_named(std::string_view name) const;
  const std::vector<PoolSet::Tensor>& tensors_of(std::size_t set) const { return declared_[set].tensors; }
  const Entry& entry(std::string_view tensor) const { return entries_[index_.find(tensor)->second]; }
  bool holds(std::size_t set) const {
    return static_cast<bool>(entry(tensors_of(set).front().name).resident.view);
  }
  void require_tensor(const PoolSet& set, const GivenTensor& given) const;
  void require_set(const PoolSet& set, const GivenSet& given) const;

  Backend& backend_;
  std::vector<PoolSet> declared_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;  ///< of entries, by name
  std::uint64_t generation_ = 0;                           ///< grows with every change
};

}  // namespace tandem
