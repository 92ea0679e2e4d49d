#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/backend.hpp"

namespace tandem {

class BlockPool;

/// A counted reference to one block of a pool. Copying adds a reference and copies no bytes; the last one to
/// go gives the block back. None of it throws. May be empty. REQUIRES: the pool outlives it.
class BlockRef {
 public:
  BlockRef() = default;
  BlockRef(const BlockRef& other) noexcept;
  BlockRef(BlockRef&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), index_(other.index_) {}
  BlockRef& operator=(BlockRef other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(index_, other.index_);
    return *this;
  }
  ~BlockRef();

  explicit operator bool() const { return pool_ != nullptr; }

  /// Of the block, in the backend's memory. REQUIRES (as the next two): not empty.
  void* data() const;
  std::int64_t index() const { return index_; }
  /// Whether another reference to the same block exists: then it must not be written.
  bool shared() const;

 private:
  friend class BlockPool;
  BlockRef(BlockPool* pool, std::int64_t index) : pool_(pool), index_(index) {}

  BlockPool* pool_ = nullptr;
  std::int64_t index_ = 0;
};

/// Equal blocks with reference counts, in one piece of one backend's memory that is allocated at construction
/// and never again. Taking and giving back a block are O(1) and touch no memory of the backend, so the
/// contents of a fresh block are what its last owner left. Unless the pool is poisoned: then whatever is free
/// reads as NaN, f32 and f64, so that whoever reads it shows.
///
/// A block may be given back and taken again while the backend still works on it: a backend does everything
/// in the order of the calls. A device that reads or writes a block in host memory by itself
/// (block_transfer.hpp) first lets that backend finish.
///
/// Not thread-safe.
class BlockPool {
 public:
  /// `what` names the blocks in messages ("slots"). Allocates nothing when blocks is 0. block_bytes is a
  /// multiple of kStateAlignment. With a device, the memory is staging memory of that device, which any
  /// backend may use, or the backend's own where the device refuses: REQUIRES a backend of host memory then.
  /// Throws what Backend::allocate throws. The backends outlive the pool. With `poison` a block that is given
  /// back is written by the backend (an upload in its order of work; one that fails is not heard of, as a
  /// device that is lost must not keep a sequence from being closed).
  BlockPool(Backend& backend, std::string_view what, std::int64_t blocks, std::int64_t block_bytes,
            Backend* device = nullptr, bool poison = false);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// The only reference to a block that nobody refers to; the lowest such index at first, then the latest
  /// given back. Throws Error(out_of_memory) with the numbers when there is none; nothing changes then.
  BlockRef acquire();

  std::int64_t total() const { return static_cast<std::int64_t>(references_.size()); }
  std::int64_t used() const { return total() - static_cast<std::int64_t>(free_.size()); }
  std::int64_t block_bytes() const { return block_bytes_; }
  std::int64_t reserved_bytes() const { return static_cast<std::int64_t>(memory_.bytes()); }
  /// Whether devices reach the blocks by themselves, with send and receive.
  bool page_locked() const { return page_locked_; }

 private:
  friend class BlockRef;
  void allocate(Backend& backend, Backend* device, std::size_t bytes);
  void* data(std::int64_t index) const;
  void retain(std::int64_t index) noexcept { ++references_[static_cast<std::size_t>(index)]; }
  void release(std::int64_t index) noexcept;
  void spoil(std::int64_t index) noexcept;

  Backend* backend_;
  std::string name_;
  std::int64_t block_bytes_;
  Buffer memory_;
  bool page_locked_ = false;
  std::vector<std::int64_t> references_;  ///< of each block; 0 is free
  std::vector<std::int64_t> free_;        ///< a stack whose capacity is total(): giving back never allocates
  std::vector<std::byte> poison_;         ///< a block of it; empty: the pool is not poisoned
};

}  // namespace tandem
