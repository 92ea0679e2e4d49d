#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/backend.hpp"
#include "core/error.hpp"
#include "graph/continuity/mirror.hpp"
#include "graph/continuity/misses.hpp"
#include "graph/placement/plan.hpp"
#include "graph/run/executor.hpp"
#include "graph/run/residents.hpp"
#include "graph/run/scheduler.hpp"
#include "state/state_manager.hpp"

namespace tandem {

/// Goes on after a backend was lost: finds out which one, and brings sequences that need it to a backend in
/// host memory that may stand in for it (Plan::may_stand_in). A sequence whose state was lost is opened there
/// again from its mirror, or from nothing, and takes the tokens since; the bits are those of an undisturbed
/// run. One whose state is elsewhere only needs weights loaded.
///
/// It may do so for sequences that are mirrored, and without a mirror for those whose policy is not refuse
/// (from nothing: only if it is replay). All others are refused with Error(device_lost) and stay what they
/// are.
///
/// Not thread-safe, but for losses(). All that it is made of outlives it. `lock` is what guards state,
/// scheduler and this, if something does: it is let go of while weights are loaded, states restored and
/// tokens computed again.
class Recovery {
 public:
  Recovery(const Plan& plan, std::vector<Backend*> backends, Residents& residents, StateManager& state,
           Scheduler& scheduler, Executor& executor, Misses& misses, Mirror& mirror)
      : plan_(plan),
        backends_(std::move(backends)),
        residents_(residents),
        state_(state),
        scheduler_(scheduler),
        executor_(executor),
        misses_(misses),
        mirror_(mirror),
        lost_(backends_.size(), false) {}

  /// After an Error(device_lost): asks every backend that was not lost yet whether it answers. One that does
  /// not is lost for good: its weights are given back, an event is noted. losses() grows by their number; if
  /// it does not, only a call has failed. REQUIRES: `lock` is not held; no step is under way.
  void notice(const Error& error, OwnedLock* lock);
  /// How many backends were lost so far. Whoever fails while it grows has met a loss that somebody else may
  /// have noticed first. May be asked at any time.
  std::uint64_t losses() const { return losses_; }

  bool any_lost() const;
  bool lost(int backend) const { return lost_[static_cast<std::size_t>(backend)]; }

  /// After this a step of the sequence needs no backend that is lost. Throws Error(device_lost) when it must
  /// not or cannot be brought elsewhere, and what restoring, loading and the steps of a replay throw; the
  /// sequence is then as before (weights that were loaded stay). An event is noted when there was something
  /// to do.
  void resolve(SequenceId sequence, OwnedLock* lock = nullptr);

  /// Where a new sequence begins: as the plan has it, or on the backend that stands in. Throws
  /// Error(device_lost) when there is none.
  std::vector<int> first_homes() const;

 private:
  int stand_in() const;  ///< -1: there is none
  std::vector<int> broken_layers(SequenceId sequence) const;
  std::vector<Piece> missing_pieces(const std::vector<int>& homes, bool moved) const;
  void require_allowed(SequenceId sequence, const std::vector<int>& broken) const;
  void mark_lost(std::size_t backend, const Error& error);
  void act(SequenceId sequence, const std::vector<Piece>& missing, ResidencyEvent& event, OwnedLock* lock);
  void rebuild(SequenceId sequence, ResidencyEvent& event, OwnedLock* lock);
  std::int64_t beginning_of(SequenceId sequence, const HostCopy* copy) const;
  std::string lost_names() const;

  const Plan& plan_;
  std::vector<Backend*> backends_;
  Residents& residents_;
  StateManager& state_;
  Scheduler& scheduler_;
  Executor& executor_;
  Misses& misses_;
  Mirror& mirror_;
  std::vector<bool> lost_;  ///< by backend
  std::atomic<std::uint64_t> losses_ = 0;
};

}  // namespace tandem
