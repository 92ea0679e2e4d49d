#pragma once

#include <cstdint>
#include <vector>

#include "graph/continuity/misses.hpp"
#include "state/host_copy.hpp"

namespace tandem {

/// How sequences of a session are mirrored in host memory.
struct MirrorOptions {
  std::int64_t every = 0;  ///< tokens of a sequence between two copies; 0: no mirror
  bool verify = false;     ///< read what has arrived a second time
};

/// Host copies of a session's sequences, made after steps. Not thread-safe. All that it is made of outlives
/// it. `lock` is what guards state and events, if something does: it is let go of while bytes are copied.
class Mirror {
 public:
  /// Allocates room for all sequences of the budget, in staging memory of `memory`. Throws what that throws.
  Mirror(const MirrorOptions& options, StateManager& state, Backend& memory, Misses& events);

  bool on() const { return options_.every > 0; }

  /// A step of this sequence that began at `position` was committed. Copies its newest version when enough
  /// tokens have come since the last copy, or the last one is of a past that was rolled back; notes an event.
  /// Does not throw, as the step is over: a copy that fails is noted, and the older one stays.
  void after_step(SequenceId sequence, std::int64_t position, OwnedLock* lock = nullptr) noexcept;

  /// The copies of a sequence; null when there are none, and that of a rolled back past is not among them.
  /// Waits for what is under way; when that fails the older copy is what there is.
  HostCopy* of(SequenceId sequence, OwnedLock* lock = nullptr);

 private:
  struct Seat {
    SequenceId sequence;
    HostCopy copy;
  };

  Seat* find(SequenceId sequence);
  Seat* free_seat();
  void settle(Seat& seat, OwnedLock* lock);
  void copy(Seat& seat, OwnedLock* lock);
  ResidencyEvent event_of(const Seat& seat) const;

  MirrorOptions options_;
  StateManager& state_;
  Misses& events_;
  std::vector<Seat> seats_;
};

}  // namespace tandem
