#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend.hpp"

namespace tandem::testing {

/// A backend that has memory and no kernels. Fresh memory is all 0xFF, a NaN in every type, so that state
/// which nobody wrote shows. Transfers outside of its memory, and of the staging memory of all fakes, are
/// errors, transfers are counted, and both can be told to fail.
class FakeBackend : public Backend {
 public:
  enum class Memory {
    real,
    addresses,  ///< allocations have an address and nothing behind it; transfers are counted and not done
  };

  explicit FakeBackend(std::string name, DType real = DType::f32,
                       std::uint64_t memory_bytes = std::uint64_t{1} << 40, Memory memory = Memory::real);

  const BackendInfo& info() const override { return info_; }
  bool alive() noexcept override { return true; }
  Buffer allocate(std::size_t bytes) override;
  Buffer allocate_staging(std::size_t bytes) override;
  std::uint64_t available_bytes() const override { return memory_bytes_ - allocated_bytes_; }
  ResidentTensor load(const HostTensor& weight) override;
  std::string_view submit(const Op& op) override;
  void upload(void* to, const void* from_host, std::size_t bytes) override;
  void download(void* to_host, const void* from, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  std::unique_ptr<Event> record() override { return finished_event(); }
  void synchronize() override {}
  std::vector<KernelInfo> kernels() const override { return {}; }
  void force_variant(std::string_view variant) override;

  /// From now on its memory is not the host's.
  void become_device() { info_.host_memory = false; }

  /// After `successes` more allocations (copies, uploads), one fails. Negative: none.
  void fail_allocation_after(int successes) { allocations_to_failure_ = successes; }
  void fail_copy_after(int successes) { copies_to_failure_ = successes; }
  void fail_upload_after(int successes) { uploads_to_failure_ = successes; }

  int allocations() const { return allocations_; }
  std::uint64_t allocated_bytes() const { return allocated_bytes_; }
  std::uint64_t uploaded_bytes() const { return uploaded_bytes_; }
  std::uint64_t downloaded_bytes() const { return downloaded_bytes_; }
  std::uint64_t copied_bytes() const { return copied_bytes_; }
  int copies() const { return copies_; }
  /// Of staging memory, of all fakes.
  static std::uint64_t staging_bytes();

 private:
  void require_inside(const void* data, std::size_t bytes) const;

  BackendInfo info_;
  std::uint64_t memory_bytes_;
  Memory memory_;
  std::map<std::uintptr_t, std::size_t> blocks_;  ///< bytes by address
  int allocations_to_failure_ = -1;
  int copies_to_failure_ = -1;
  int uploads_to_failure_ = -1;
  int allocations_ = 0;
  int copies_ = 0;
  std::uint64_t allocated_bytes_ = 0;
  std::uint64_t uploaded_bytes_ = 0;
  std::uint64_t downloaded_bytes_ = 0;
  std::uint64_t copied_bytes_ = 0;
};

}  // namespace tandem::testing
