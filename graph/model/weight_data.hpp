#pragma once

#include <memory>
#include <optional>

#include "core/backend.hpp"

namespace tandem {

/// The values of a weight: in host memory, or random ones that are made where they are needed and take no
/// memory before that.
struct WeightData {
  ConstTensor view;                   ///< element type and shape; `data` is null for random values
  std::shared_ptr<const void> owner;  ///< of the memory
  std::optional<RandomTensor> random;

  WeightData() = default;
  // Implicit, so that whoever hands out weights returns the one or the other.
  WeightData(HostTensor stored) : view(stored.view), owner(std::move(stored.owner)) {}
  WeightData(const RandomTensor& tensor) : view(nullptr, tensor.dtype, tensor.shape), random(tensor) {}

  /// The values in host memory, made there now if they are random. Throws Error(out_of_memory).
  HostTensor on_host() const;
  /// Copies bytes [begin, end) of the tensor as it lies in memory to `to`. REQUIRES: whole elements, but for
  /// q4.
  void read(std::int64_t begin, std::int64_t end, std::byte* to) const;
  /// Makes the weight resident on a backend, which computes random values itself. Throws as Backend::load and
  /// Backend::generate.
  ResidentTensor load_on(Backend& backend) const;
};

}  // namespace tandem
