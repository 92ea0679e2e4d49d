#include "tests/graph/device_backend.hpp"

#include "backends/cpu/cpu_backend.hpp"
#include "core/error.hpp"

namespace tandem {

DeviceBackend::DeviceBackend(std::string name, std::uint64_t memory_limit)
    : cpu_(make_cpu_backend({.name = name, .threads = 1, .variant = ""})),
      info_{std::move(name), "a device made of the CPU", DType::f32, false},
      limit_(memory_limit) {}

Buffer DeviceBackend::allocate(std::size_t bytes) {
  if (bytes > available_bytes()) {
    fail(ErrorCode::out_of_memory, "{}: {} bytes asked for, {} left", info_.name, bytes, available_bytes());
  }
  // The CPU's buffer is kept by the release function of this one.
  const auto inner = std::make_shared<Buffer>(cpu_->allocate(bytes));
  *used_ += bytes;
  taken_ += bytes;
  return {inner->data(), bytes, [inner, bytes, used = used_](void*) { *used -= bytes; }};
}

ResidentTensor DeviceBackend::load(const HostTensor& weight) {
  if (loads_to_failure_ == 0) fail(ErrorCode::device_lost, "{}: planted", info_.name);
  if (loads_to_failure_ > 0) --loads_to_failure_;
  ++loads_;
  const auto bytes = static_cast<std::size_t>(weight.view.bytes());
  const auto memory = std::make_shared<Buffer>(allocate(bytes));
  upload(memory->data(), weight.view.data, bytes);
  return {ConstTensor(memory->data(), weight.view.dtype, weight.view.shape), memory, weight.view.bytes()};
}

Context cpu_and_device(std::uint64_t memory_limit) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(make_cpu_backend({.name = "cpu", .threads = 1, .variant = ""}));
  backends.push_back(std::make_unique<DeviceBackend>("cuda:0", memory_limit));
  return Context(std::move(backends));
}

DeviceBackend& device_of(const Context& context) { return dynamic_cast<DeviceBackend&>(context.backend(1)); }

}  // namespace tandem
