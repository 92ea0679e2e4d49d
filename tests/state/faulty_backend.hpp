#pragma once

#include <memory>
#include <string>

#include "tests/state/fake_backend.hpp"

namespace tandem::testing {

/// A backend whose transfers can be told to fail or to lie: it counts calls of allocate_staging, send,
/// receive, record and checksums, and the one with a given number throws, or damages what it carries.
class FaultyBackend final : public FakeBackend {
 public:
  explicit FaultyBackend(std::string name, bool host_memory = false) : FakeBackend(std::move(name)) {
    if (!host_memory) become_device();
  }

  Buffer allocate_staging(std::size_t bytes) override;
  void send(void* to, const void* from_staging, std::size_t bytes) override;
  void receive(void* to_staging, const void* from, std::size_t bytes) override;
  std::unique_ptr<PendingChecksums> checksums(std::span<const ByteRange> ranges) override;
  std::unique_ptr<Event> record() override;

  /// The call after `successes` more throws Error(device_lost). Negative: none.
  void fail_after(int successes) { to_failure_ = successes; }
  /// The send or receive after `successes` more flips a bit in the first byte that it carries. Negative:
  /// none.
  void flip_after(int successes) { to_flip_ = successes; }
  int calls() const { return calls_; }
  int transfers() const { return transfers_; }

 private:
  void count();
  void carried(void* data);

  int to_failure_ = -1;
  int to_flip_ = -1;
  int calls_ = 0;
  int transfers_ = 0;
};

}  // namespace tandem::testing
