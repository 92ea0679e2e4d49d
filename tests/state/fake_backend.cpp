#include "tests/state/fake_backend.hpp"

#include <cstring>
#include <new>
#include <utility>

#include "core/error.hpp"

namespace tandem::testing {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr std::uintptr_t kFirstAddress = std::uintptr_t{1} << 40;

using Blocks = std::map<std::uintptr_t, std::size_t>;  // bytes by address

/// That any backend may use.
Blocks& staging_blocks() {
  static Blocks blocks;
  return blocks;
}

bool has(const Blocks& blocks, std::uintptr_t address, std::size_t bytes) {
  auto block = blocks.upper_bound(address);
  return block != blocks.begin() && (--block)->first + block->second >= address + bytes;
}

bool counts_down_to_failure(int& countdown) { return countdown >= 0 && countdown-- == 0; }

}  // namespace

FakeBackend::FakeBackend(std::string name, DType real, std::uint64_t memory_bytes, Memory memory)
    : info_{.name = std::move(name), .description = "memory only", .real = real, .host_memory = true},
      memory_bytes_(memory_bytes),
      memory_(memory) {}

Buffer FakeBackend::allocate(std::size_t bytes) {
  if (counts_down_to_failure(allocations_to_failure_) || bytes > available_bytes()) {
    fail(ErrorCode::out_of_memory, "{}: no {} bytes", info_.name, bytes);
  }
  void* data = reinterpret_cast<void*>(kFirstAddress);
  if (memory_ == Memory::real) {
    data = ::operator new(bytes, kAlignment);
    std::memset(data, 0xFF, bytes);
  }
  blocks_[reinterpret_cast<std::uintptr_t>(data)] = bytes;
  allocated_bytes_ += bytes;
  ++allocations_;
  return Buffer(data, bytes, [this, bytes](void* freed) {
    blocks_.erase(reinterpret_cast<std::uintptr_t>(freed));
    allocated_bytes_ -= bytes;
    if (memory_ == Memory::real) ::operator delete(freed, kAlignment);
  });
}

Buffer FakeBackend::allocate_staging(std::size_t bytes) {
  void* data = ::operator new(bytes, kAlignment);
  std::memset(data, 0xFF, bytes);
  staging_blocks()[reinterpret_cast<std::uintptr_t>(data)] = bytes;
  return Buffer(data, bytes, [](void* freed) {
    staging_blocks().erase(reinterpret_cast<std::uintptr_t>(freed));
    ::operator delete(freed, kAlignment);
  });
}

std::uint64_t FakeBackend::staging_bytes() {
  std::uint64_t sum = 0;
  for (const auto& [address, bytes] : staging_blocks()) sum += bytes;
  return sum;
}

ResidentTensor FakeBackend::load(const HostTensor&) { fail(ErrorCode::unsupported, "no weights here"); }

std::string_view FakeBackend::submit(const Op&) { fail(ErrorCode::unsupported, "no kernels here"); }

void FakeBackend::force_variant(std::string_view) { fail(ErrorCode::unsupported, "no kernels here"); }

void FakeBackend::upload(void* to, const void* from_host, std::size_t bytes) {
  require_inside(to, bytes);
  if (counts_down_to_failure(uploads_to_failure_))
    fail(ErrorCode::device_lost, "{}: upload failed", info_.name);
  uploaded_bytes_ += bytes;
  if (memory_ == Memory::real) std::memcpy(to, from_host, bytes);
}

void FakeBackend::download(void* to_host, const void* from, std::size_t bytes) {
  require_inside(from, bytes);
  downloaded_bytes_ += bytes;
  if (memory_ == Memory::real) std::memcpy(to_host, from, bytes);
}

void FakeBackend::copy(void* to, const void* from, std::size_t bytes) {
  require_inside(to, bytes);
  require_inside(from, bytes);
  if (counts_down_to_failure(copies_to_failure_)) fail(ErrorCode::device_lost, "{}: copy failed", info_.name);
  ++copies_;
  copied_bytes_ += bytes;
  if (memory_ == Memory::real) std::memcpy(to, from, bytes);
}

void FakeBackend::require_inside(const void* data, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (!has(blocks_, address, bytes) && !has(staging_blocks(), address, bytes)) {
    fail(ErrorCode::invalid_argument, "{}: {} bytes outside of its memory", info_.name, bytes);
  }
}

}  // namespace tandem::testing
