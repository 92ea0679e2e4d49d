#include "state/slot_pool.hpp"

#include <cassert>
#include <vector>

namespace tandem {
namespace {

/// A pool of nothing must not look at dimensions that no layer has.
std::int64_t slot_bytes_or_unit(const StateGeometry& geometry, std::int64_t slots) {
  return slots > 0 ? geometry.slot_bytes() : kStateAlignment;
}

}  // namespace

SlotPool::SlotPool(Backend& backend, const StateGeometry& geometry, std::int64_t slots, Backend* device,
                   bool poison)
    : pool_(backend, "state slots", slots, slot_bytes_or_unit(geometry, slots), device, poison) {
  if (slots == 0) return;
  zero_ = pool_.acquire();
  assert(zero_.index() == 0);
  const std::vector<unsigned char> zeros(static_cast<std::size_t>(pool_.block_bytes()));
  backend.upload(zero_.data(), zeros.data(), zeros.size());
  backend.synchronize();  // the zeros on the host go away now
}

}  // namespace tandem
