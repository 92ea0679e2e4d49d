#include "state/block_copy.hpp"

#include <algorithm>
#include <exception>

namespace tandem {

void BusyBackends::settle() noexcept {
  for (Backend* backend : backends_) {
    try {
      backend->synchronize();
    } catch (const std::exception&) {
      // Whoever is leaving early has a better one to tell.
    }
  }
  backends_.clear();
}

void BusyBackends::add(std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) {
    add(*copy.from);
    add(*copy.to);
  }
}

void BusyBackends::add(Backend& backend) {
  if (std::find(backends_.begin(), backends_.end(), &backend) == backends_.end())
    backends_.push_back(&backend);
}

}  // namespace tandem
