#include "core/backend.hpp"

#include <chrono>

#include "core/host_memory.hpp"

namespace tandem {
namespace {

/// Of a backend whose calls return when their work is done.
class HostEvent final : public Event {
 public:
  void wait() override {}
  double ms_since(const Event& earlier) override {
    const auto& other = dynamic_cast<const HostEvent&>(earlier);
    return std::chrono::duration<double, std::milli>(at_ - other.at_).count();
  }

 private:
  std::chrono::steady_clock::time_point at_ = std::chrono::steady_clock::now();
};

}  // namespace

ResidentTensor Backend::generate(const RandomTensor& weight) {
  ResidentTensor resident = load(make_host_tensor(info().name, weight));
  resident.owned_bytes = weight.bytes();
  return resident;
}

Buffer Backend::allocate_staging(std::size_t bytes) { return allocate_host(info().name, bytes); }

void Backend::send(void* to, const void* from_staging, std::size_t bytes) { upload(to, from_staging, bytes); }

void Backend::receive(void* to_staging, const void* from, std::size_t bytes) {
  download(to_staging, from, bytes);
}

std::unique_ptr<Event> Backend::record() { return std::make_unique<HostEvent>(); }

}  // namespace tandem
