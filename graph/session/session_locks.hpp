#pragma once

#include <vector>

#include "core/context.hpp"
#include "core/owned_mutex.hpp"

namespace tandem {

/// Keeps threads apart that drive sessions over one context, and different sequences of one session. A
/// backend's lock is the context's and is held while the backend is used; the session's own is held while
/// sequences, weights and events are looked up or changed, which is short. Taken in this order only: backends
/// by their number, then the state; so nobody waits in a circle.
///
/// A thread that has a lock and asks for one that must come before it, or for the same, is refused with
/// Error(invalid_argument): it is in a callback.
class SessionLocks {
 public:
  using Lock = OwnedLock;

  /// `backends` are some of the context's, in its order.
  SessionLocks(const Context& context, const std::vector<Backend*>& backends) {
    for (std::size_t i = 0; i < context.size(); ++i) {
      all_.push_back(&context.mutex(i));
      for (const Backend* backend : backends) {
        if (backend == &context.backend(i)) backends_.push_back(&context.mutex(i));
      }
    }
  }

  /// `which` has an entry for each backend.
  [[nodiscard]] std::vector<Lock> backends(const std::vector<bool>& which) {
    std::vector<Lock> held;
    for (std::size_t b = 0; b < which.size(); ++b) {
      if (!which[b]) continue;
      if (held.empty()) refuse_inside();
      held.emplace_back(*backends_[b]);
    }
    return held;
  }
  [[nodiscard]] std::vector<Lock> all_backends() {
    return backends(std::vector<bool>(backends_.size(), true));
  }
  /// Those that this thread has not.
  [[nodiscard]] std::vector<Lock> other_backends() {
    std::vector<Lock> held;
    for (OwnedMutex* mutex : backends_) {
      if (!mutex->held_here()) held.emplace_back(*mutex);
    }
    return held;
  }

  /// REQUIRES: the caller takes no backend's while it has it.
  [[nodiscard]] Lock state() { return Lock(state_); }
  [[nodiscard]] Lock state_later() { return Lock(state_, std::defer_lock); }

 private:
  void refuse_inside() const {
    bool inside = state_.held_here();
    for (const OwnedMutex* mutex : all_) inside = inside || mutex->held_here();
    if (inside) refuse_call_inside();
  }

  std::vector<OwnedMutex*> all_;       ///< of the context
  std::vector<OwnedMutex*> backends_;  ///< of the session's
  OwnedMutex state_;
};

}  // namespace tandem
