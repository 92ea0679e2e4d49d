#include "state/block_pool.hpp"

#include <cassert>

#include "core/error.hpp"
#include "state/geometry.hpp"

namespace tandem {

BlockRef::BlockRef(const BlockRef& other) noexcept : pool_(other.pool_), index_(other.index_) {
  if (pool_ != nullptr) pool_->retain(index_);
}

BlockRef::~BlockRef() {
  if (pool_ != nullptr) pool_->release(index_);
}

void* BlockRef::data() const { return pool_->data(index_); }

bool BlockRef::shared() const { return pool_->references_[static_cast<std::size_t>(index_)] > 1; }

/// All bits set are a NaN of every element type.
constexpr std::byte kPoison{0xFF};

BlockPool::BlockPool(Backend& backend, std::string_view what, std::int64_t blocks, std::int64_t block_bytes,
                     Backend* device, bool poison)
    : backend_(&backend),
      name_(fmt::format("{} on {}", what, backend.info().name)),
      block_bytes_(block_bytes) {
  assert(blocks >= 0 && block_bytes > 0 && block_bytes % kStateAlignment == 0);
  if (blocks == 0) return;
  references_.resize(static_cast<std::size_t>(blocks));
  free_.reserve(static_cast<std::size_t>(blocks));
  for (std::int64_t i = blocks; i-- > 0;) free_.push_back(i);
  allocate(backend, device, static_cast<std::size_t>(blocks) * static_cast<std::size_t>(block_bytes));
  if (!poison) return;
  poison_.assign(static_cast<std::size_t>(block_bytes), kPoison);
  for (std::int64_t i = 0; i < blocks; ++i) backend.upload(data(i), poison_.data(), poison_.size());
}

void BlockPool::allocate(Backend& backend, Backend* device, std::size_t bytes) {
  if (device != nullptr) {
    try {
      memory_ = device->allocate_staging(bytes);
      page_locked_ = true;
      return;
    } catch (const Error&) {
      // Systems limit what may be page-locked. Ordinary memory does too: a copy takes a detour.
    }
  }
  memory_ = backend.allocate(bytes);
}

BlockRef BlockPool::acquire() {
  if (free_.empty()) {
    fail(ErrorCode::out_of_memory, "{}: all {} are in use; close a sequence or make the budget larger", name_,
         total());
  }
  const std::int64_t index = free_.back();
  free_.pop_back();
  retain(index);
  return BlockRef(this, index);
}

void* BlockPool::data(std::int64_t index) const {
  return static_cast<unsigned char*>(memory_.data()) + index * block_bytes_;
}

void BlockPool::release(std::int64_t index) noexcept {
  std::int64_t& references = references_[static_cast<std::size_t>(index)];
  assert(references > 0);
  if (--references > 0) return;
  free_.push_back(index);
  if (!poison_.empty()) spoil(index);
}

void BlockPool::spoil(std::int64_t index) noexcept {
  try {
    backend_->upload(data(index), poison_.data(), poison_.size());
  } catch (const Error&) {
    // A lost device: nobody will read there any more.
  }
}

}  // namespace tandem
