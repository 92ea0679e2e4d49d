#include "core/owned_mutex.hpp"

#include "core/error.hpp"

namespace tandem {

void refuse_call_inside() {
  fail(ErrorCode::invalid_argument,
       "this thread is inside of a call already (in a probe, an observer or a watch), or it holds a session: "
       "look at the session there, and change it afterwards");
}

void OwnedMutex::lock() {
  if (held_here()) refuse_call_inside();
  mutex_.lock();
  owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

void OwnedMutex::unlock() {
  owner_.store(std::thread::id(), std::memory_order_relaxed);
  mutex_.unlock();
}

}  // namespace tandem
