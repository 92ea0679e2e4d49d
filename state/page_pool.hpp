#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/backend.hpp"
#include "state/block_pool.hpp"
#include "state/geometry.hpp"

namespace tandem {

/// The pages of one backend: keys and values of page_tokens positions of one layer each. Any layer may take
/// any page.
///
/// Not thread-safe.
class PagePool {
 public:
  /// 0 pages make a pool that holds nothing. `device` and `poison` as in BlockPool. Throws what
  /// Backend::allocate throws. The backends outlive the pool.
  PagePool(Backend& backend, const StateGeometry& geometry, std::int64_t pages, Backend* device = nullptr,
           bool poison = false);

  /// A page to write, of unknown contents. Throws Error(out_of_memory) when all are in use.
  BlockRef acquire() { return pool_.acquire(); }

  /// Makes `to` read like `from`, all of it. Throws what Backend::copy throws; `from` is unchanged in any
  /// case.
  void copy(const BlockRef& to, const BlockRef& from);

  std::int64_t total() const { return pool_.total(); }
  std::int64_t used() const { return pool_.used(); }
  std::int64_t page_stride() const { return pool_.block_bytes(); }
  std::int64_t reserved_bytes() const { return pool_.reserved_bytes(); }
  bool page_locked() const { return pool_.page_locked(); }

 private:
  Backend* backend_;
  BlockPool pool_;
};

/// The pages of one sequence in one layer, in order of position. Copying it shares the pages. A page that is
/// written must be in one list only; one that is in several is replaced by a copy first.
class PageList {
 public:
  std::int64_t size() const { return static_cast<std::int64_t>(pages_.size()); }
  const BlockRef& operator[](std::int64_t i) const { return pages_[static_cast<std::size_t>(i)]; }

  /// As operators take them. Valid until the list changes.
  std::span<void* const> data() const { return data_; }

  /// Makes room for `pages` in all, so that append() up to there does not throw.
  void reserve(std::int64_t pages);
  void append(BlockRef page);
  void replace(std::int64_t i, BlockRef page) noexcept;
  /// Gives back all pages but the first `pages`.
  void truncate(std::int64_t pages) noexcept;

 private:
  std::vector<BlockRef> pages_;
  std::vector<void*> data_;
};

}  // namespace tandem
