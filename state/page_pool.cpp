#include "state/page_pool.hpp"

#include <algorithm>
#include <cassert>

namespace tandem {
namespace {

/// Doubles at least: a list grows by a page at a time over the whole context.
template <class T>
void reserve_growing(std::vector<T>& vector, std::size_t size) {
  if (vector.capacity() < size) vector.reserve(std::max(size, 2 * vector.capacity()));
}

}  // namespace

PagePool::PagePool(Backend& backend, const StateGeometry& geometry, std::int64_t pages, Backend* device,
                   bool poison)
    : backend_(&backend),
      pool_(backend, "pages", pages, pages > 0 ? geometry.page_stride() : kStateAlignment, device, poison) {}

void PagePool::copy(const BlockRef& to, const BlockRef& from) {
  backend_->copy(to.data(), from.data(), static_cast<std::size_t>(pool_.block_bytes()));
}

void PageList::reserve(std::int64_t pages) {
  reserve_growing(pages_, static_cast<std::size_t>(pages));
  reserve_growing(data_, static_cast<std::size_t>(pages));
}

void PageList::append(BlockRef page) {
  data_.push_back(page.data());
  pages_.push_back(std::move(page));
}

void PageList::replace(std::int64_t i, BlockRef page) noexcept {
  data_[static_cast<std::size_t>(i)] = page.data();
  pages_[static_cast<std::size_t>(i)] = std::move(page);
}

void PageList::truncate(std::int64_t pages) noexcept {
  assert(pages <= size());
  pages_.resize(static_cast<std::size_t>(pages));
  data_.resize(static_cast<std::size_t>(pages));
}

}  // namespace tandem
