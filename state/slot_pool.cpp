#include "state/slot_pool.hpp"

#include <algorithm>
#include <cassert>
#include <vector>

#include "core/error.hpp"

namespace tandem {
namespace {

/// A pool of nothing must not look at dimensions that no layer has.
std::int64_t slot_bytes_or_unit(const StateGeometry& geometry, std::int64_t slots) {
  return slots > 0 ? geometry.slot_bytes() : kStateAlignment;
}

}  // namespace

SlotPool::SlotPool(Backend& backend, const StateGeometry& geometry, std::int64_t slots, Backend* device,
                   bool poison, bool verify)
    : pool_(backend, "state slots", slots, slot_bytes_or_unit(geometry, slots), device, poison) {
  if (slots == 0) return;
  zero_ = pool_.acquire();
  assert(zero_.index() == 0);
  std::vector<unsigned char> zeros(static_cast<std::size_t>(pool_.block_bytes()));
  backend.upload(zero_.data(), zeros.data(), zeros.size());
  backend.synchronize();  // the zeros on the host go away now
  if (!verify) return;
  backend.download(zeros.data(), zero_.data(), zeros.size());
  if (std::any_of(zeros.begin(), zeros.end(), [](unsigned char byte) { return byte != 0; })) {
    fail(ErrorCode::mismatch,
         "{}: the zero state that sequences begin with changed on its way there (nothing was computed)",
         backend.info().name);
  }
}

}  // namespace tandem
