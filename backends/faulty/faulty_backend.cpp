#include "backends/faulty/faulty_backend.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "core/error.hpp"

namespace tandem {
namespace {

void wait_for(double milliseconds) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
}

void flip_bit(void* data, std::size_t bytes, const Fault& fault) {
  if (bytes == 0) return;
  const std::size_t at = std::min(static_cast<std::size_t>(fault.byte), bytes - 1);
  static_cast<unsigned char*>(data)[at] ^= static_cast<unsigned char>(1U << static_cast<unsigned>(fault.bit));
}

/// A copy that has been asked for and not been done. Outlives the backend, as the memory that it hands out
/// does: giving that back ends what is still to be done with it.
class Late {
 public:
  void put_off(double milliseconds, std::function<void()> copy) {
    milliseconds_ = milliseconds;
    copy_ = std::move(copy);
  }
  void finish() {
    if (!copy_) return;
    const std::function<void()> copy = std::exchange(copy_, nullptr);
    wait_for(milliseconds_);
    copy();
  }
  void forget() { copy_ = nullptr; }
  bool waiting() const { return static_cast<bool>(copy_); }

 private:
  double milliseconds_ = 0;
  std::function<void()> copy_;
};

class FaultyBackend final : public Backend {
 public:
  FaultyBackend(std::unique_ptr<Backend> inner, std::shared_ptr<Faults> faults)
      : inner_(std::move(inner)), faults_(std::move(faults)) {}

  const BackendInfo& info() const override { return inner_->info(); }
  bool alive() noexcept override { return !faults_->lost(info().name) && inner_->alive(); }
  std::vector<KernelInfo> kernels() const override { return inner_->kernels(); }
  Traffic traffic() const override { return inner_->traffic(); }
  void force_variant(std::string_view variant) override { inner_->force_variant(variant); }

  Buffer allocate(std::size_t bytes) override {
    begin(FaultCall::alloc, "allocate");
    return kept(inner_->allocate(bytes));
  }
  Buffer allocate_staging(std::size_t bytes) override {
    begin(FaultCall::alloc, "allocate staging memory");
    return kept(inner_->allocate_staging(bytes));
  }
  /// Not counted, as how often somebody asks is nobody's promise; but a lost device does not answer.
  std::uint64_t available_bytes() const override {
    if (faults_->lost(info().name)) return 0;
    return inner_->available_bytes();
  }
  ResidentTensor load(const HostTensor& weight) override {
    begin(FaultCall::alloc, "load a weight");
    return inner_->load(weight);
  }
  ResidentTensor generate(const RandomTensor& weight) override {
    begin(FaultCall::alloc, "generate a weight");
    return inner_->generate(weight);
  }

  std::string_view submit(const Op& op) override {
    begin(FaultCall::launch, name(kind_of(op)));
    return inner_->submit(op);
  }

  void upload(void* to, const void* from_host, std::size_t bytes) override {
    const Faults::Due due = begin(FaultCall::upload, "upload");
    if (due.delay) wait_for(due.delay->milliseconds);
    inner_->upload(to, due.flip ? flipped(from_host, bytes, *due.flip) : from_host, bytes);
  }
  void download(void* to_host, const void* from, std::size_t bytes) override {
    const Faults::Due due = begin(FaultCall::download, "download");
    if (due.delay) wait_for(due.delay->milliseconds);
    inner_->download(to_host, from, bytes);
    if (due.flip) flip_bit(to_host, bytes, *due.flip);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    const Faults::Due due = begin(FaultCall::copy, "copy");
    if (due.delay) return put_off(*due.delay, [=, inner = inner_] { inner->copy(to, from, bytes); });
    inner_->copy(to, from, bytes);
  }
  void send(void* to, const void* from_staging, std::size_t bytes) override {
    const Faults::Due due = begin(FaultCall::send, "send");
    if (due.flip) return inner_->upload(to, flipped(from_staging, bytes, *due.flip), bytes);
    if (due.delay) return put_off(*due.delay, [=, inner = inner_] { inner->send(to, from_staging, bytes); });
    inner_->send(to, from_staging, bytes);
  }
  void receive(void* to_staging, const void* from, std::size_t bytes) override {
    const Faults::Due due = begin(FaultCall::receive, "receive");
    if (due.delay)
      return put_off(*due.delay, [=, inner = inner_] { inner->receive(to_staging, from, bytes); });
    if (!due.flip) return inner_->receive(to_staging, from, bytes);
    inner_->download(to_staging, from, bytes);
    flip_bit(to_staging, bytes, *due.flip);
  }

  std::unique_ptr<PendingChecksums> checksums(std::span<const ByteRange> ranges) override {
    begin(FaultCall::launch, "checksums");
    return inner_->checksums(ranges);
  }

  std::unique_ptr<Event> record() override;
  void synchronize() override {
    begin(FaultCall::wait, "synchronize");
    inner_->synchronize();
  }

 private:
  class Mark;

  /// Counts a call and lets it fail; what is late is done before whatever comes after it.
  Faults::Due begin(FaultCall call, std::string_view what) {
    try {
      const Faults::Due due = faults_->call(info().name, call, what);
      if (call != FaultCall::record) late_->finish();
      return due;
    } catch (...) {
      if (faults_->lost(info().name)) late_->forget();
      throw;
    }
  }

  void put_off(const Fault& delay, std::function<void()> copy) {
    late_->put_off(delay.milliseconds, std::move(copy));
  }

  /// Memory that ends what is late before it goes, as freeing memory of a device waits for the device.
  Buffer kept(Buffer memory) const {
    const auto inner = std::make_shared<Buffer>(std::move(memory));
    return {inner->data(), inner->bytes(), [inner, late = late_, backend = inner_](void*) {
              try {
                late->finish();
              } catch (const Error&) {
                // Nobody is left to hear of a copy that nobody has waited for.
              }
              *inner = Buffer();
            }};
  }

  const void* flipped(const void* data, std::size_t bytes, const Fault& fault) {
    flipped_.resize(bytes);
    std::memcpy(flipped_.data(), data, bytes);
    flip_bit(flipped_.data(), bytes, fault);
    return flipped_.data();
  }

  std::shared_ptr<Backend> inner_;  ///< a late copy and memory that is out keep it
  std::shared_ptr<Faults> faults_;
  std::shared_ptr<Late> late_ = std::make_shared<Late>();
  std::vector<std::byte> flipped_;
};

/// A mark that knows of a copy in front of it which the other backend has not seen yet.
class FaultyBackend::Mark final : public Event {
 public:
  explicit Mark(FaultyBackend& backend)
      : backend_(backend), inner_(backend.inner_->record()), behind_late_copy_(backend.late_->waiting()) {}

  void wait() override {
    backend_.begin(FaultCall::wait, "wait");
    if (behind_late_copy_) backend_.inner_->synchronize();
    inner_->wait();
  }
  double ms_since(const Event& earlier) override {
    wait();
    return inner_->ms_since(*dynamic_cast<const Mark&>(earlier).inner_);
  }

 private:
  FaultyBackend& backend_;
  std::unique_ptr<Event> inner_;
  bool behind_late_copy_;
};

std::unique_ptr<Event> FaultyBackend::record() {
  begin(FaultCall::record, "record");
  return std::make_unique<Mark>(*this);
}

}  // namespace

std::unique_ptr<Backend> make_faulty_backend(std::unique_ptr<Backend> inner, std::shared_ptr<Faults> faults) {
  return std::make_unique<FaultyBackend>(std::move(inner), std::move(faults));
}

}  // namespace tandem
