#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backend.hpp"
#include "core/context.hpp"

namespace tandem {

/// The CPU backend as a device would look: memory of its own with a limit that allocate() keeps, which the
/// host may not dereference, and weights that are copied there.
class DeviceBackend final : public Backend {
 public:
  DeviceBackend(std::string name, std::uint64_t memory_limit);

  const BackendInfo& info() const override { return info_; }
  bool alive() noexcept override { return true; }
  Buffer allocate(std::size_t bytes) override;
  std::uint64_t available_bytes() const override { return limit_ - *used_; }
  ResidentTensor load(const HostTensor& weight) override;
  std::string_view submit(const Op& op) override { return cpu_->submit(op); }
  void upload(void* to, const void* from_host, std::size_t bytes) override {
    cpu_->upload(to, from_host, bytes);
  }
  void download(void* to_host, const void* from, std::size_t bytes) override {
    cpu_->download(to_host, from, bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes) override { cpu_->copy(to, from, bytes); }
  std::unique_ptr<Event> record() override { return finished_event(); }
  void synchronize() override {}
  std::vector<KernelInfo> kernels() const override { return cpu_->kernels(); }
  void force_variant(std::string_view variant) override { cpu_->force_variant(variant); }

  std::uint64_t used_bytes() const { return *used_; }
  /// Of all that was ever allocated.
  std::uint64_t taken_bytes() const { return taken_; }
  int loads() const { return loads_; }
  /// After `successes` more loads, one fails. Negative: none.
  void fail_load_after(int successes) { loads_to_failure_ = successes; }

 private:
  std::unique_ptr<Backend> cpu_;
  BackendInfo info_;
  std::uint64_t limit_;
  std::shared_ptr<std::uint64_t> used_ = std::make_shared<std::uint64_t>(0);  ///< outlived by buffers
  std::uint64_t taken_ = 0;
  int loads_ = 0;
  int loads_to_failure_ = -1;
};

/// Memory for all that the tests load.
inline constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30;

/// "cpu", and a device "cuda:0" with this much memory.
Context cpu_and_device(std::uint64_t memory_limit);
DeviceBackend& device_of(const Context& context);

}  // namespace tandem
