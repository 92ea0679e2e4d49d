#include "graph/continuity/recovery.hpp"

#include <algorithm>

#include "core/stopwatch.hpp"
#include "graph/continuity/replay.hpp"

namespace tandem {
namespace {

Piece piece_of(const PlanLine& line) {
  return line.layer == kNoLayer ? Piece(line.part) : Piece(line.layer, line.part);
}

}  // namespace

bool Recovery::any_lost() const { return std::find(lost_.begin(), lost_.end(), true) != lost_.end(); }

void Recovery::mark_lost(std::size_t backend, const Error& error) {
  ResidencyEvent event;
  event.what = "lost";
  event.from = plan_.backend_names[backend];
  event.bytes = residents_.owned_bytes(static_cast<int>(backend));
  event.error = error.what();
  lost_[backend] = true;
  ++losses_;
  residents_.drop(static_cast<int>(backend));
  misses_.note(std::move(event));
}

void Recovery::notice(const Error& error, OwnedLock* lock) {
  std::vector<std::size_t> silent;
  for (std::size_t b = 0; b < backends_.size(); ++b) {
    if (!lost_[b] && !backends_[b]->alive()) silent.push_back(b);
  }
  if (silent.empty()) return;
  executor_.forget_marks();
  if (lock != nullptr) lock->lock();
  for (std::size_t b : silent) mark_lost(b, error);
  if (lock != nullptr) lock->unlock();
}

int Recovery::stand_in() const {
  for (std::size_t b = 0; b < lost_.size(); ++b) {
    if (plan_.may_stand_in(static_cast<int>(b)) && !lost_[b]) return static_cast<int>(b);
  }
  return -1;
}

std::string Recovery::lost_names() const {
  std::string names;
  for (std::size_t b = 0; b < lost_.size(); ++b) {
    if (lost_[b]) names += (names.empty() ? "" : ", ") + plan_.backend_names[b];
  }
  return names;
}

std::vector<int> Recovery::first_homes() const {
  const auto is_lost = [&](int home) { return lost(home); };
  if (std::none_of(plan_.state_home.begin(), plan_.state_home.end(), is_lost)) return plan_.state_home;
  const int host = stand_in();
  if (host < 0) {
    fail(
        ErrorCode::device_lost,
        "a new sequence needs {}, which is lost, and nothing stands in for it; open a session with a home in "
        "host memory",
        lost_names());
  }
  return std::vector<int>(plan_.state_home.size(), host);
}

std::vector<int> Recovery::broken_layers(SequenceId sequence) const {
  const std::vector<int>& homes = state_.homes(sequence);
  std::vector<int> layers;
  for (std::size_t layer = 0; layer < homes.size(); ++layer) {
    if (lost(homes[layer])) layers.push_back(static_cast<int>(layer));
  }
  return layers;
}

/// What the stand-in must load for a sequence of these homes. A weight that is missing for another reason
/// than a loss is a miss, and not looked at, unless the state has `moved` here.
std::vector<Piece> Recovery::missing_pieces(const std::vector<int>& homes, bool moved) const {
  std::vector<Piece> pieces;
  const int host = stand_in();
  const auto host_holds = [&](const Piece& piece) { return host >= 0 && residents_.holds(piece, host); };
  for (const PlanLine& line : plan_.lines) {
    const Piece piece = piece_of(line);
    if (has_state(line.part)) {
      if (moved && !host_holds(piece)) pieces.push_back(piece);
      continue;
    }
    if (!lost(line.backend)) continue;
    const bool beside =
        line.layer != kNoLayer && residents_.holds(piece, homes[static_cast<std::size_t>(line.layer)]);
    if (!beside && !host_holds(piece)) pieces.push_back(piece);
  }
  return pieces;
}

void Recovery::require_allowed(SequenceId sequence, const std::vector<int>& broken) const {
  const MissPolicy policy = misses_.policy(sequence);
  const bool by_policy = broken.empty() ? policy != MissPolicy::refuse : policy == MissPolicy::replay;
  const std::string what =
      broken.empty() ? std::string("parts of it ran there")
                     : fmt::format("the state of layer {}{} was there", broken.front(),
                                   broken.size() == 1 ? "" : fmt::format(" and {} more", broken.size() - 1));
  if (stand_in() < 0) {
    fail(ErrorCode::device_lost,
         "sequence {} cannot go on: {} is lost ({}) and nothing stands in for it; open sessions with a home "
         "in "
         "host memory",
         to_string(sequence), lost_names(), what);
  }
  if (mirror_.on() || by_policy) return;
  fail(ErrorCode::device_lost,
       "sequence {} cannot go on: {} is lost ({}), there is no mirror and its policy is {}; let it be "
       "replay, or "
       "mirror sequences",
       to_string(sequence), lost_names(), what, name(policy));
}

/// How many tokens to restore: a copy that is older than all kept versions lets all of them be made again; if
/// there is none, the one that loses the fewest.
std::int64_t Recovery::beginning_of(SequenceId sequence, const HostCopy* copy) const {
  if (copy == nullptr) return 0;
  const std::vector<std::int64_t> tokens = copy->tokens();  // larger first
  const std::int64_t oldest = state_.versions(sequence).front().tokens;
  const std::int64_t newest = state_.tokens(sequence);
  // Tokens that nobody knows cannot be replayed; then only the newest version will do.
  const bool known = scheduler_.history().of(sequence, newest).has_value();
  if (!known && !tokens.empty() && tokens.front() == newest) return newest;
  for (std::int64_t each : tokens) {
    if (each <= oldest) return each;
  }
  return tokens.empty() ? 0 : tokens.back();
}

void Recovery::rebuild(SequenceId sequence, ResidencyEvent& event, OwnedLock* lock) {
  const HostCopy* copy = mirror_.of(sequence, lock);
  const std::int64_t begin = beginning_of(sequence, copy);
  const std::vector<int> homes(state_.homes(sequence).size(), stand_in());
  const SequenceOptions options{.residency = state_.residency(sequence), .home = homes, .rebuild = true};
  const SequenceId fresh = begin > 0 ? copy->restore(state_, options, begin, lock) : state_.open(options);
  try {
    replay_tokens(scheduler_, state_, sequence, fresh, lock);
    state_.replace(sequence, fresh, StateManager::Older::forgotten);
  } catch (...) {
    state_.close(fresh);
    throw;
  }
  event.decision = begin > 0 ? "mirror" : "replay";
  event.bytes = begin > 0 ? copy->restored_bytes(begin) : 0;
}

void Recovery::act(SequenceId sequence, const std::vector<Piece>& missing, ResidencyEvent& event,
                   OwnedLock* lock) {
  for (const Piece& piece : missing) residents_.load(piece, stand_in(), {}, lock);
  event.decision = "versions";
  if (!event.layers.empty()) rebuild(sequence, event, lock);
  for (const VersionInfo& version : state_.versions(sequence)) event.versions.push_back(version.number);
}

void Recovery::resolve(SequenceId sequence, OwnedLock* lock) {
  if (!any_lost()) return;
  const std::vector<int> broken = broken_layers(sequence);
  const std::vector<Piece> missing = missing_pieces(state_.homes(sequence), !broken.empty());
  if (broken.empty() && missing.empty()) return;
  const Stopwatch clock;
  ResidencyEvent event;
  event.what = "rebuilt";
  event.sequence = sequence;
  event.layers = broken;
  event.from = broken.empty()
                   ? lost_names()
                   : plan_.backend_names[static_cast<std::size_t>(state_.home(sequence, broken.front()))];
  event.to = stand_in() < 0 ? "" : plan_.backend_names[static_cast<std::size_t>(stand_in())];
  event.tokens = state_.tokens(sequence);
  try {
    require_allowed(sequence, broken);
    act(sequence, missing, event, lock);
  } catch (const Error& error) {
    event.error = error.what();
    event.milliseconds = clock.milliseconds();
    misses_.note(std::move(event));
    throw;
  }
  event.milliseconds = clock.milliseconds();
  misses_.note(std::move(event));
}

}  // namespace tandem
