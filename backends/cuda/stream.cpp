#include "backends/cuda/stream.hpp"

#include "backends/cuda/status.hpp"

namespace tandem::cuda {
namespace {

class CudaEvent final : public Event {
 public:
  CudaEvent(std::string where, cudaStream_t stream) : where_(std::move(where)) {
    check(cudaEventCreate(&event_), where_);
    const cudaError_t status = cudaEventRecord(event_, stream);
    if (status == cudaSuccess) return;
    static_cast<void>(cudaEventDestroy(event_));
    check(status, where_);
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() override { static_cast<void>(cudaEventDestroy(event_)); }

  void wait() override { check(cudaEventSynchronize(event_), where_); }
  double ms_since(const Event& earlier) override {
    float ms = 0;
    wait();
    const auto* other = dynamic_cast<const CudaEvent*>(&earlier);
    if (other == nullptr)
      fail(ErrorCode::invalid_argument, "{}: an event is compared with one of another backend", where_);
    check(cudaEventElapsedTime(&ms, other->event_, event_), where_);
    return ms;
  }

 private:
  std::string where_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace

Stream::Stream(std::string who, int device) : who_(std::move(who)), device_(device) {
  activate();
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), who_);
}

Stream::~Stream() {
  static_cast<void>(cudaSetDevice(device_));
  static_cast<void>(cudaStreamSynchronize(stream_));
  static_cast<void>(cudaStreamDestroy(stream_));
}

void Stream::activate() const { check(cudaSetDevice(device_), who_); }

void Stream::synchronize() const { check(cudaStreamSynchronize(stream_), where()); }

bool Stream::alive() const noexcept {
  if (cudaSetDevice(device_) != cudaSuccess) return false;
  // An error that ends a CUDA context comes back at every call; one that does not is gone at the second.
  static_cast<void>(cudaStreamSynchronize(stream_));
  static_cast<void>(cudaGetLastError());
  return cudaStreamSynchronize(stream_) == cudaSuccess;
}

std::unique_ptr<Event> Stream::record() const { return std::make_unique<CudaEvent>(where(), stream_); }

std::string Stream::where() const {
  return op_.empty() ? who_ : fmt::format("{} after {} ({})", who_, op_, variant_);
}

}  // namespace tandem::cuda
