#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace tandem {

/// Keeps threads apart that drive different sequences of one session. A backend's lock is held while it is
/// used, the state's while sequences, weights and events are looked up or changed, which is short. Taken in
/// this order only: backends by their number, then the state; so nobody waits in a circle.
class SessionLocks {
 public:
  using Lock = std::unique_lock<std::mutex>;

  explicit SessionLocks(std::size_t backends) : backends_(backends) {}

  /// REQUIRES: the caller holds no lock of these; `which` has an entry for each backend.
  [[nodiscard]] std::vector<Lock> backends(const std::vector<bool>& which) {
    std::vector<Lock> held;
    for (std::size_t b = 0; b < which.size(); ++b) {
      if (which[b]) held.emplace_back(backends_[b]);
    }
    return held;
  }
  [[nodiscard]] std::vector<Lock> all_backends() {
    return backends(std::vector<bool>(backends_.size(), true));
  }

  /// REQUIRES: the caller does not hold it, and takes no backend's while it does.
  [[nodiscard]] Lock state() { return Lock(state_); }

 private:
  std::vector<std::mutex> backends_;
  std::mutex state_;
};

}  // namespace tandem
