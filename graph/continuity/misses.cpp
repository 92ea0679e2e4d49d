#include "graph/continuity/misses.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "graph/continuity/replay.hpp"
#include "graph/run/step_recorder.hpp"
#include "state/unsafe_restart.hpp"

namespace tandem {
namespace {

std::vector<int> all_layers_of(const StateManager& state) {
  std::vector<int> layers(state.geometry().layers.size());
  std::iota(layers.begin(), layers.end(), 0);
  return layers;
}

}  // namespace

std::string_view name(MissPolicy policy) {
  constexpr std::array<std::string_view, 5> kNames{"refuse", "migrate", "migrate_all", "replay",
                                                   "unsafe_restart"};
  return kNames[static_cast<std::size_t>(policy)];
}

MissPolicy Misses::policy(SequenceId sequence) const {
  const auto found = policies_.find(sequence.index);
  const bool known = found != policies_.end() && found->second.first == sequence.generation;
  return known ? found->second.second : MissPolicy::refuse;
}

/// Once for every change: a step should not ask each layer anew.
void Misses::look_where_weights_are() {
  if (!held_.empty() && held_when_ == residents_.changes()) return;
  held_when_ = residents_.changes();
  held_.assign(plan_.backend_names.size(), {});
  for (std::size_t b = 0; b < held_.size(); ++b) {
    int layer = 0;
    for (LayerKind kind : state_.geometry().layers) {
      const Piece piece(layer++, state_part(kind));
      held_[b].push_back(residents_.holds(piece, static_cast<int>(b)));
    }
  }
}

bool Misses::may_live(int layer, int backend) const {
  return plan_.homes[static_cast<std::size_t>(backend)] ||
         plan_.state_home[static_cast<std::size_t>(layer)] == backend;
}

std::vector<int> Misses::missed_layers(SequenceId sequence) {
  if (!plan_.movable() && feigned_.empty()) return {};
  look_where_weights_are();
  const std::vector<int>& homes = state_.homes(sequence);
  std::vector<int> layers;
  for (int layer = 0; layer < static_cast<int>(homes.size()); ++layer) {
    if (!holds_state_of(layer, homes[static_cast<std::size_t>(layer)])) layers.push_back(layer);
  }
  return layers;
}

/// The first backend where all of these layers may live and find their weights.
int Misses::backend_for(const std::vector<int>& layers, SequenceId sequence) const {
  for (int b = 0; b < static_cast<int>(plan_.backend_names.size()); ++b) {
    const auto fits = [&](int layer) { return may_live(layer, b) && holds_state_of(layer, b); };
    if (std::all_of(layers.begin(), layers.end(), fits)) return b;
  }
  fail(ErrorCode::not_resident,
       "no backend of this session has the weights of layer {}{} of sequence {} and room for the state; load "
       "them where it may live",
       layers.front(), layers.size() == 1 ? "" : fmt::format(" and {} more", layers.size() - 1),
       to_string(sequence));
}

std::vector<int> Misses::new_homes(SequenceId sequence, const std::vector<int>& layers, bool whole) const {
  std::vector<int> homes = state_.homes(sequence);
  if (whole) return std::vector<int>(homes.size(), backend_for(all_layers_of(state_), sequence));
  for (int layer : layers) homes[static_cast<std::size_t>(layer)] = backend_for({layer}, sequence);
  return homes;
}

void Misses::act(SequenceId sequence, MissPolicy policy, const std::vector<int>& layers,
                 ResidencyEvent& event, OwnedLock* lock) {
  const bool uniform = state_.residency(sequence) == Residency::uniform;
  const bool whole = policy == MissPolicy::migrate_all || (policy == MissPolicy::replay && uniform);
  const std::vector<int> homes = new_homes(sequence, layers, whole);
  event.to = backend_name(homes[static_cast<std::size_t>(layers.front())]);
  if (policy == MissPolicy::replay) return replay(sequence, homes, lock);
  if (policy == MissPolicy::unsafe_restart) return unsafe_restart(state_, sequence, homes);
  std::vector<Move> moves;
  for (int layer : whole ? all_layers_of(state_) : layers)
    moves.push_back({sequence, homes[static_cast<std::size_t>(layer)], {layer}});
  event.bytes = migrate(state_, moves, lock).bytes;
}

void Misses::feign(SequenceId sequence, std::int64_t tokens) {
  feigned_.clear();
  if (faults_ == nullptr) return;
  const std::int64_t first = state_.tokens(sequence);
  for (int layer : faults_->misses(first, first + tokens)) {
    if (layer < std::ssize(state_.geometry().layers))
      feigned_.emplace_back(layer, state_.home(sequence, layer));
  }
}

void Misses::resolve(SequenceId sequence, std::int64_t tokens, OwnedLock* lock) {
  feign(sequence, tokens);
  const Stopwatch clock;
  const std::vector<int> layers = missed_layers(sequence);
  if (layers.empty()) return;
  const MissPolicy policy = plan_.movable() ? this->policy(sequence) : MissPolicy::refuse;
  ResidencyEvent event;
  event.what = "miss";
  event.sequence = sequence;
  event.layers = layers;
  event.from = backend_name(state_.home(sequence, layers.front()));
  event.decision = name(policy);
  event.tokens = state_.tokens(sequence);
  for (const VersionInfo& version : state_.versions(sequence)) event.versions.push_back(version.number);
  try {
    if (policy != MissPolicy::refuse) act(sequence, policy, layers, event, lock);
  } catch (const Error& error) {
    event.error = error.what();
    event.milliseconds = clock.milliseconds();
    note(std::move(event));
    throw;
  }
  event.milliseconds = clock.milliseconds();
  note(std::move(event));
  // A weight that is really missing is the scheduler's to refuse; it does not know of others.
  if (policy == MissPolicy::refuse && !feigned_.empty()) {
    fail(ErrorCode::not_resident,
         "layer {} is not loaded on {}, where its state lives (injected: miss); load it there first (nothing "
         "has "
         "been computed)",
         feigned_.front().first, backend_name(feigned_.front().second));
  }
}

void Misses::replay(SequenceId sequence, const std::vector<int>& homes, OwnedLock* lock) {
  const SequenceId fresh = state_.open({state_.residency(sequence), homes});
  try {
    replay_tokens(scheduler_, state_, sequence, fresh, lock);
    state_.replace(sequence, fresh);
  } catch (...) {
    state_.close(fresh);
    throw;
  }
}

void Misses::note_migration(SequenceId sequence, std::int64_t tokens, const MigrationReport& report) {
  if (report.layers.empty()) return;
  ResidencyEvent event;
  event.what = "migration";
  event.sequence = sequence;
  for (const MovedLayer& moved : report.layers) event.layers.push_back(moved.layer);
  event.from = backend_name(report.layers.front().from);
  event.to = backend_name(report.layers.front().to);
  event.decision = "asked";
  event.tokens = tokens;
  event.bytes = report.bytes;
  event.milliseconds = report.milliseconds;
  for (const VersionInfo& version : state_.versions(sequence)) event.versions.push_back(version.number);
  note(std::move(event));
}

void Misses::note(ResidencyEvent event) {
  if (events_.size() == kEvents) events_.pop_front();
  events_.push_back(std::move(event));
  if (watch_ != nullptr) watch_->residency(events_.back());
}

}  // namespace tandem
