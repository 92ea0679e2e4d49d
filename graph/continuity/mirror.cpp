#include "graph/continuity/mirror.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/stopwatch.hpp"

namespace tandem {

Mirror::Mirror(const MirrorOptions& options, StateManager& state, Backend& memory, Misses& events)
    : options_(options), state_(state), events_(events) {
  if (!on()) return;
  const StateBudget& budget = state.budget();
  for (std::int64_t i = 0; i < budget.sequences; ++i) {
    seats_.push_back({{}, HostCopy(state.geometry(), budget.context_tokens, memory, options.verify)});
  }
}

Mirror::Seat* Mirror::find(SequenceId sequence) {
  const auto found =
      std::find_if(seats_.begin(), seats_.end(), [&](const Seat& s) { return s.sequence == sequence; });
  return found == seats_.end() ? nullptr : &*found;
}

/// Nobody says that a sequence was closed: its seat is free when another one needs it.
Mirror::Seat* Mirror::free_seat() {
  const auto free =
      std::find_if(seats_.begin(), seats_.end(), [&](const Seat& s) { return !state_.is_open(s.sequence); });
  return free == seats_.end() ? nullptr : &*free;
}

void Mirror::after_step(SequenceId sequence, std::int64_t position, OwnedLock* lock) noexcept {
  if (!on()) return;
  Seat* seat = find(sequence);
  // A sequence that did not begin here (a fork, one from a file) may have a past that no tokens bring back.
  bool at_once = false;
  if (seat == nullptr) {
    seat = free_seat();
    if (seat == nullptr) return;
    seat->sequence = sequence;
    at_once = position > 0;
    seat->copy.clear(!at_once);
  }
  settle(*seat, lock);
  seat->copy.forget_beyond(position);
  const std::int64_t last = seat->copy.newest();
  if (at_once || last < 0 || state_.tokens(sequence) - last >= options_.every) copy(*seat, lock);
}

/// What was under way has arrived with the step that came after it, and not to know that until a device is
/// lost would be too late.
void Mirror::settle(Seat& seat, OwnedLock* lock) {
  try {
    const Released released(lock);
    seat.copy.finish();
  } catch (const std::exception& error) {
    ResidencyEvent event = event_of(seat);
    event.error = error.what();
    events_.note(std::move(event));
  }
}

ResidencyEvent Mirror::event_of(const Seat& seat) const {
  ResidencyEvent event;
  event.what = "mirror";
  event.sequence = seat.sequence;
  event.from = state_.view(seat.sequence, 0).backend->info().name;
  event.to = "host memory";
  event.decision = "asked";
  event.tokens = state_.tokens(seat.sequence);
  return event;
}

void Mirror::copy(Seat& seat, OwnedLock* lock) {
  const Stopwatch clock;
  ResidencyEvent event = event_of(seat);
  event.versions = {state_.versions(seat.sequence).back().number};
  try {
    const bool is_only_one = seat.copy.tokens().empty();
    event.bytes = seat.copy.take(state_, seat.sequence, lock);
    const Released released(lock);
    if (is_only_one) seat.copy.finish();
  } catch (const std::exception& error) {
    event.error = error.what();
  }
  event.milliseconds = clock.milliseconds();
  events_.note(std::move(event));
}

HostCopy* Mirror::of(SequenceId sequence, OwnedLock* lock) {
  Seat* seat = find(sequence);
  if (seat == nullptr) return nullptr;
  try {
    const Released released(lock);
    seat->copy.finish();
  } catch (const std::exception&) {
    // It was under way when its backend was lost.
  }
  seat->copy.forget_beyond(state_.tokens(sequence));
  return &seat->copy;
}

}  // namespace tandem
