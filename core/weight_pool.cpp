#include "core/weight_pool.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "core/q4_quantizer.hpp"

namespace tandem {

WeightPool::WeightPool(Backend& backend, std::vector<PoolSet> declared)
    : backend_(backend), declared_(std::move(declared)) {
  std::set<std::string_view> sets;
  for (std::size_t s = 0; s < declared_.size(); ++s) {
    const PoolSet& set = declared_[s];
    if (!sets.insert(set.name).second || set.tensors.empty()) {
      fail(ErrorCode::invalid_argument, "4-bit weights of {}: declared twice, or without tensors", set.name);
    }
    for (const PoolSet::Tensor& tensor : set.tensors) {
      require_q4_shape(tensor.shape, tensor.name.c_str());
      if (!index_.emplace(tensor.name, entries_.size()).second) {
        fail(ErrorCode::invalid_argument, "4-bit weights of {}: '{}' is declared twice", set.name,
             tensor.name);
      }
      entries_.push_back({tensor.name, s, tensor.shape, {}});
    }
  }
}

std::size_t WeightPool::set_named(std::string_view name) const {
  const auto found =
      std::find_if(declared_.begin(), declared_.end(), [&](auto& s) { return s.name == name; });
  if (found != declared_.end()) return static_cast<std::size_t>(found - declared_.begin());
  fail(ErrorCode::invalid_argument, "{}: {} was not declared in 4 bits", backend_.info().name, name);
}

void WeightPool::require_tensor(const PoolSet& set, const GivenTensor& given) const {
  const auto declared = std::find_if(set.tensors.begin(), set.tensors.end(),
                                     [&](auto& tensor) { return tensor.name == given.name; });
  if (declared == set.tensors.end()) {
    fail(ErrorCode::invalid_argument, "{}: {} in 4 bits has no tensor '{}', expected {} tensors",
         backend_.info().name, set.name, given.name, set.tensors.size());
  }
  if (given.dtype != DType::q4) {
    fail(ErrorCode::mismatch, "{}: {} was declared in 4 bits, but '{}' is given in {}: quantise it first",
         backend_.info().name, set.name, given.name, name(given.dtype));
  }
  if (given.shape != declared->shape) {
    fail(ErrorCode::mismatch, "{}: '{}' of {} is {}, expected {}", backend_.info().name, given.name, set.name,
         to_string(given.shape), to_string(declared->shape));
  }
}

void WeightPool::require_set(const PoolSet& set, const GivenSet& given) const {
  std::map<std::string_view, DType> seen;
  for (const GivenTensor& tensor : given.tensors) {
    const auto [other, is_new] = seen.emplace(tensor.name, tensor.dtype);
    if (is_new) continue;
    fail(ErrorCode::invalid_argument,
         "{}: '{}' of {} is given twice, in {} and in {}: give it in 4 bits alone", backend_.info().name,
         tensor.name, set.name, name(other->second), name(tensor.dtype));
  }
  for (const GivenTensor& tensor : given.tensors) require_tensor(set, tensor);
  for (const PoolSet::Tensor& tensor : set.tensors) {
    if (seen.contains(tensor.name)) continue;
    fail(ErrorCode::mismatch, "{}: '{}' of {} is missing; a set in 4 bits is given whole ({} tensors)",
         backend_.info().name, tensor.name, set.name, set.tensors.size());
  }
}

WeightPool::Staged WeightPool::stage(std::span<const GivenSet> sets) const {
  std::set<std::size_t> seen;
  for (const GivenSet& given : sets) {
    const std::size_t set = set_named(given.name);
    if (!seen.insert(set).second || holds(set)) {
      fail(ErrorCode::invalid_argument, "{}: {} is given twice, or there already: remove it first",
           backend_.info().name, given.name);
    }
    require_set(declared_[set], given);
  }
  Staged staged;
  for (const GivenSet& given : sets) {
    for (const GivenTensor& tensor : given.tensors) {
      staged.tensors_.emplace_back(index_.find(tensor.name)->second, tensor.load(backend_));
    }
  }
  return staged;
}

void WeightPool::commit(Staged staged) noexcept {
  ++generation_;
  for (auto& [entry, tensor] : staged.tensors_) {
    entries_[entry].resident = std::move(tensor);
    entries_[entry].generation = generation_;
  }
}

void WeightPool::remove(std::string_view name) {
  const std::size_t set = set_named(name);
  for (Entry& entry : entries_) {
    if (entry.set == set) entry.resident = {};
  }
}

void WeightPool::clear() {
  for (Entry& entry : entries_) entry.resident = {};
}

WeightPool::Reference WeightPool::reference(std::string_view tensor) const {
  const auto found = index_.find(tensor);
  if (found == index_.end() || !entries_[found->second].resident.view) {
    fail(ErrorCode::not_resident, "{}: '{}' is not there in 4 bits; load its set first", backend_.info().name,
         tensor);
  }
  return {found->second, entries_[found->second].generation};
}

const ConstTensor& WeightPool::get(const Reference& reference) const {
  const Entry& entry = entries_[reference.tensor_];
  if (entry.resident.view && entry.generation == reference.generation_) return entry.resident.view;
  fail(ErrorCode::not_resident, "{}: a reference to '{}' is older than the last change of {}; take a new one",
       backend_.info().name, entry.name, declared_[entry.set].name);
}

std::int64_t WeightPool::owned_bytes() const {
  std::int64_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.resident.owned_bytes;
  return bytes;
}

}  // namespace tandem
