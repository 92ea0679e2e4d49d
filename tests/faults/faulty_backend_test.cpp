#include "backends/faulty/faulty_backend.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "backends/cpu/cpu_backend.hpp"
#include "tests/graph/expect_error.hpp"

namespace tandem {
namespace {

/// A CPU backend "cpu" under faults, with a block of its memory and one of staging memory.
class FaultyBackendTest : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 64;

  FaultyBackendTest() { std::iota(source_.begin(), source_.end(), std::uint8_t{1}); }

  std::vector<std::uint8_t> stored() const {
    const auto* data = static_cast<const std::uint8_t*>(memory_.data());  // the CPU's memory is the host's
    return {data, data + kBytes};
  }
  /// Positions that differ from what was sent.
  static std::vector<std::size_t> changed(const std::vector<std::uint8_t>& a,
                                          const std::vector<std::uint8_t>& b) {
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) positions.push_back(i);
    }
    return positions;
  }

  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  std::unique_ptr<Backend> backend_ = make_faulty_backend(make_cpu_backend({.threads = 1}), faults_);
  Buffer memory_ = backend_->allocate(kBytes);
  Buffer staging_ = backend_->allocate_staging(kBytes);
  std::vector<std::uint8_t> source_ = std::vector<std::uint8_t>(kBytes);
  std::vector<std::uint8_t> target_ = std::vector<std::uint8_t>(kBytes);
};

TEST_F(FaultyBackendTest, WithoutFaultsItIsTheOther) {
  EXPECT_EQ(backend_->info().name, "cpu");
  backend_->upload(memory_.data(), source_.data(), kBytes);
  backend_->download(target_.data(), memory_.data(), kBytes);
  EXPECT_EQ(target_, source_);
  EXPECT_EQ(backend_->kernels().size(), make_cpu_backend({.threads = 1})->kernels().size());
  EXPECT_GT(backend_->available_bytes(), 0u);
}

TEST_F(FaultyBackendTest, OneBitArrivesWrong) {
  const auto expect_flip = [&](const std::vector<std::uint8_t>& found, std::size_t byte, int bit) {
    EXPECT_EQ(changed(source_, found), std::vector<std::size_t>{byte});
    EXPECT_EQ(source_[byte] ^ found[byte], 1 << bit);
  };
  faults_->arm("flip@upload:1:byte=5:bit=6");
  backend_->upload(memory_.data(), source_.data(), kBytes);
  expect_flip(stored(), 5, 6);
  backend_->upload(memory_.data(), source_.data(), kBytes);
  EXPECT_EQ(stored(), source_);

  faults_->arm("flip@download:1:byte=9999");
  backend_->download(target_.data(), memory_.data(), kBytes);
  expect_flip(target_, kBytes - 1, 0);

  faults_->arm("flip@receive:1:byte=7:bit=1");
  backend_->receive(staging_.data(), memory_.data(), kBytes);
  backend_->record()->wait();
  const auto* staged = static_cast<std::uint8_t*>(staging_.data());
  expect_flip({staged, staged + kBytes}, 7, 1);
  EXPECT_EQ(stored(), source_);

  backend_->receive(staging_.data(), memory_.data(), kBytes);
  faults_->arm("flip@send:1:byte=8:bit=2");
  backend_->send(memory_.data(), staging_.data(), kBytes);
  backend_->record()->wait();
  expect_flip(stored(), 8, 2);
  const std::vector<std::uint8_t> after{staged, staged + kBytes};
  EXPECT_EQ(after, source_);
}

TEST_F(FaultyBackendTest, ADelayedCopyIsDoneWhenItIsWaitedFor) {
  backend_->upload(memory_.data(), source_.data(), kBytes);
  std::memset(staging_.data(), 0, kBytes);
  const auto staged = [&] { return static_cast<std::uint8_t*>(staging_.data())[3]; };
  faults_->arm("delay@receive:1:ms=20");
  const auto start = std::chrono::steady_clock::now();
  backend_->receive(staging_.data(), memory_.data(), kBytes);
  const std::unique_ptr<Event> event = backend_->record();
  EXPECT_EQ(staged(), 0);
  event->wait();
  EXPECT_EQ(staged(), source_[3]);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));

  // What follows in order finds it done, and so does whoever frees the memory.
  const std::vector<std::uint8_t> nines(kBytes, 9);
  std::memset(staging_.data(), 7, kBytes);
  faults_->arm("delay@send:1:ms=1");
  backend_->send(memory_.data(), staging_.data(), kBytes);
  EXPECT_EQ(stored(), source_);
  backend_->download(target_.data(), memory_.data(), kBytes);
  EXPECT_EQ(target_, std::vector<std::uint8_t>(kBytes, 7));
  {
    const Buffer other = backend_->allocate(kBytes);
    backend_->upload(other.data(), nines.data(), kBytes);
    faults_->arm("delay@copy:1:ms=1");
    backend_->copy(memory_.data(), other.data(), kBytes);
    EXPECT_EQ(stored(), std::vector<std::uint8_t>(kBytes, 7));
  }
  EXPECT_EQ(stored(), nines);
}

TEST_F(FaultyBackendTest, EveryCallOfALostDeviceFailsAndMemoryIsFreed) {
  const std::unique_ptr<Event> event = backend_->record();
  faults_->arm("delay@receive:1:ms=1,lost@2");
  std::memset(staging_.data(), 3, kBytes);
  backend_->receive(staging_.data(), memory_.data(), kBytes);
  const HostTensor weight{ConstTensor(source_.data(), DType::f32, Shape{4}), nullptr};
  const std::function<void()> calls[] = {
      [&] { backend_->allocate(1); },
      [&] { backend_->allocate_staging(1); },
      [&] { backend_->load(weight); },
      [&] { backend_->submit(Op{}); },
      [&] { backend_->upload(memory_.data(), source_.data(), kBytes); },
      [&] { backend_->download(target_.data(), memory_.data(), kBytes); },
      [&] { backend_->send(memory_.data(), staging_.data(), kBytes); },
      [&] { backend_->receive(staging_.data(), memory_.data(), kBytes); },
      [&] { backend_->copy(memory_.data(), memory_.data(), kBytes); },
      [&] { backend_->record(); },
      [&] { event->wait(); },
      [&] { backend_->synchronize(); },
  };
  for (const auto& call : calls) expect_error(ErrorCode::device_lost, "(injected: lost@2)", call);
  EXPECT_EQ(backend_->available_bytes(), 0u);
  EXPECT_EQ(backend_->info().name, "cpu");
  // The late copy never came; the sanitizer sees what memory is not freed, or freed twice.
  EXPECT_EQ(static_cast<std::uint8_t*>(staging_.data())[0], 3);
}

TEST_F(FaultyBackendTest, AFailedCallHasNoEffect) {
  backend_->upload(memory_.data(), source_.data(), kBytes);
  const std::vector<std::uint8_t> zeros(kBytes);
  faults_->arm("fail@upload:1,alloc@1");
  expect_error(ErrorCode::device_lost, "upload failed",
               [&] { backend_->upload(memory_.data(), zeros.data(), kBytes); });
  expect_error(ErrorCode::out_of_memory, "cpu: allocate failed (injected: alloc@1)",
               [&] { backend_->allocate(8); });
  EXPECT_EQ(stored(), source_);
  EXPECT_NO_THROW(backend_->allocate(8));
}

}  // namespace
}  // namespace tandem
