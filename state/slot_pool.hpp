#pragma once

#include <cstdint>

#include "core/backend.hpp"
#include "state/block_pool.hpp"
#include "state/geometry.hpp"

namespace tandem {

/// The slots of one backend. A slot is what one recurrent layer remembers in one version of a sequence: its
/// pieces in slots (layer_pieces.hpp), each at a multiple of kStateAlignment.
///
/// Slot 0 is the zero slot: all zero bytes, referred to by the zero version of every sequence, never written
/// and never given to anyone to write.
///
/// Not thread-safe.
class SlotPool {
 public:
  /// `slots` includes the zero slot; 0 makes a pool that holds nothing. Zeroes slot 0 and waits for that.
  /// `device` and `poison` as in BlockPool. With `verify` the zeros are read again: Error(mismatch) when they
  /// are none. Throws what the backend throws. The backends outlive the pool.
  SlotPool(Backend& backend, const StateGeometry& geometry, std::int64_t slots, Backend* device = nullptr,
           bool poison = false, bool verify = false);

  /// A reference to the zero slot: to read, as it is shared by all. REQUIRES: a pool of at least one slot.
  BlockRef zero() const { return zero_; }

  /// A slot to write, of unknown contents. Throws Error(out_of_memory) when all are in use.
  BlockRef acquire() { return pool_.acquire(); }

  /// Without the zero slot, which is not there to be used up.
  std::int64_t total() const { return pool_.total() - reserved_slots(); }
  std::int64_t used() const { return pool_.used() - reserved_slots(); }
  std::int64_t slot_bytes() const { return pool_.block_bytes(); }
  /// With the zero slot.
  std::int64_t reserved_bytes() const { return pool_.reserved_bytes(); }
  bool page_locked() const { return pool_.page_locked(); }

 private:
  std::int64_t reserved_slots() const { return zero_ ? 1 : 0; }

  BlockPool pool_;
  BlockRef zero_;
};

}  // namespace tandem
