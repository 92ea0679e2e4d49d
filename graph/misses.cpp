#include "graph/misses.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>

#include "core/error.hpp"
#include "graph/step_recorder.hpp"
#include "state/unsafe_restart.hpp"

namespace tandem {
namespace {

class Clock {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

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
      const Piece piece(layer++, kind == LayerKind::recurrent ? Part::gdn : Part::attention);
      held_[b].push_back(residents_.holds(piece, static_cast<int>(b)));
    }
  }
}

bool Misses::may_live(int layer, int backend) const {
  return plan_.homes[static_cast<std::size_t>(backend)] ||
         plan_.state_home[static_cast<std::size_t>(layer)] == backend;
}

std::vector<int> Misses::missed_layers(SequenceId sequence) {
  if (!plan_.movable()) return {};
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
                 ResidencyEvent& event) {
  const bool uniform = state_.residency(sequence) == Residency::uniform;
  const bool whole = policy == MissPolicy::migrate_all || (policy == MissPolicy::replay && uniform);
  const std::vector<int> homes = new_homes(sequence, layers, whole);
  event.to = backend_name(homes[static_cast<std::size_t>(layers.front())]);
  if (policy == MissPolicy::replay) return replay(sequence, homes);
  if (policy == MissPolicy::unsafe_restart) return unsafe_restart(state_, sequence, homes);
  std::vector<Move> moves;
  for (int layer : whole ? all_layers_of(state_) : layers)
    moves.push_back({sequence, homes[static_cast<std::size_t>(layer)], {layer}});
  event.bytes = migrate(state_, moves).bytes;
}

void Misses::resolve(SequenceId sequence) {
  const Clock clock;
  const std::vector<int> layers = missed_layers(sequence);
  if (layers.empty()) return;
  const MissPolicy policy = this->policy(sequence);
  ResidencyEvent event;
  event.what = "miss";
  event.sequence = sequence;
  event.layers = layers;
  event.from = backend_name(state_.home(sequence, layers.front()));
  event.decision = name(policy);
  event.tokens = state_.tokens(sequence);
  for (const VersionInfo& version : state_.versions(sequence)) event.versions.push_back(version.number);
  try {
    if (policy != MissPolicy::refuse) act(sequence, policy, layers, event);
  } catch (const Error& error) {
    event.error = error.what();
    event.milliseconds = clock.milliseconds();
    add(std::move(event));
    throw;
  }
  event.milliseconds = clock.milliseconds();
  add(std::move(event));
}

/// Steps end where the kept versions do, so that each of them is made again.
void Misses::replay_tokens(SequenceId sequence, SequenceId fresh) {
  const std::int64_t limit = scheduler_.limits().tokens;
  const auto tokens = scheduler_.history().of(sequence, state_.tokens(sequence));
  if (!tokens) {
    fail(ErrorCode::not_found,
         "sequence {} cannot be replayed: not all of its {} tokens went through this session; fork with "
         "Session::fork",
         to_string(sequence), state_.tokens(sequence));
  }
  const std::vector<TokenId> all(tokens->begin(), tokens->end());  // the history grows meanwhile
  std::int64_t done = 0;
  for (const VersionInfo& version : state_.versions(sequence)) {
    while (done < version.tokens) {
      const std::int64_t count = std::min(limit, version.tokens - done);
      const auto chunk =
          std::span(all).subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count));
      const SequenceTokens step[] = {{fresh, chunk, Outputs::none}};
      scheduler_.step(step);
      done += count;
    }
  }
}

void Misses::replay(SequenceId sequence, const std::vector<int>& homes) {
  const SequenceId fresh = state_.open({state_.residency(sequence), homes});
  try {
    replay_tokens(sequence, fresh);
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
  add(std::move(event));
}

void Misses::add(ResidencyEvent event) {
  if (events_.size() == kEvents) events_.pop_front();
  events_.push_back(std::move(event));
  if (observation_ != nullptr) observation_->residency(events_.back());
}

}  // namespace tandem
