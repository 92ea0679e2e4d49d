#include "state/block_copy.hpp"

#include <algorithm>
#include <exception>

namespace tandem {

BusyBackends::~BusyBackends() {
  for (Backend* backend : backends_) {
    try {
      backend->synchronize();
    } catch (const std::exception&) {
      // Whoever is leaving early has a better one to tell.
    }
  }
}

void BusyBackends::add(std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) {
    for (Backend* backend : {copy.from, copy.to}) {
      if (std::find(backends_.begin(), backends_.end(), backend) == backends_.end())
        backends_.push_back(backend);
    }
  }
}

}  // namespace tandem
