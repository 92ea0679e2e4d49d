#pragma once

#include <atomic>
#include <mutex>
#include <thread>

namespace tandem {

/// A mutex that knows which thread has it, so that a callback that comes back to where it was called from is
/// refused instead of waiting for itself.
class OwnedMutex {
 public:
  /// Throws Error(invalid_argument) when this thread has it already.
  void lock();
  void unlock();
  /// Whether this thread has it.
  bool held_here() const { return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_ = std::thread::id();
};

using OwnedLock = std::unique_lock<OwnedMutex>;

/// Lets go of a lock while it lives, and has it again when it goes. Null: there is nothing to let go of.
class Released {
 public:
  explicit Released(OwnedLock* lock) : lock_(lock) {
    if (lock_ != nullptr) lock_->unlock();
  }
  ~Released() {
    if (lock_ != nullptr) lock_->lock();
  }
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

 private:
  OwnedLock* lock_;
};

/// Throws the Error of a call that must not be made from where it was made.
[[noreturn]] void refuse_call_inside();

}  // namespace tandem
