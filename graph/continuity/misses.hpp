#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "core/faults.hpp"
#include "graph/placement/plan.hpp"
#include "graph/run/residency_event.hpp"
#include "graph/run/residents.hpp"
#include "graph/run/scheduler.hpp"
#include "state/migration.hpp"
#include "state/state_manager.hpp"

namespace tandem {

/// Looks before a step whether the weights of a sequence's stateful parts are loaded where its states live,
/// and does what the sequence's policy says when they are not. Writes down what happened.
///
/// Not thread-safe. All that it is made of outlives it. `lock` is what guards state, scheduler and this, if
/// something does: it is let go of while states are moved and tokens computed again.
class Misses {
 public:
  /// `faults` may plan misses of weights that are there; null: there are none.
  Misses(const Plan& plan, const Residents& residents, StateManager& state, Scheduler& scheduler,
         Faults* faults = nullptr)
      : plan_(plan), residents_(residents), state_(state), scheduler_(scheduler), faults_(faults) {}

  /// Policies of sequences; refuse, until another was set.
  void set_policy(SequenceId sequence, MissPolicy policy) {
    policies_[sequence.index] = {sequence.generation, policy};
  }
  MissPolicy policy(SequenceId sequence) const;

  /// Whether resolve() would have something to do, planned faults aside.
  bool missed(SequenceId sequence) { return !missed_layers(sequence).empty(); }
  /// After this the sequence's next step, of that many tokens, finds the weights of its states, unless its
  /// policy is refuse. Throws Error(not_resident) when no backend of the session has the weights, and what
  /// migrate() and a replay's steps throw; the sequence is then as before. An event is noted in any case when
  /// there is a miss.
  void resolve(SequenceId sequence, std::int64_t tokens = 1, OwnedLock* lock = nullptr);

  /// A migration that somebody asked for.
  void note_migration(SequenceId sequence, std::int64_t tokens, const MigrationReport& report);

  /// Anything else that happened to where state and weights are.
  void note(ResidencyEvent event);

  /// From now on the watch is to tell every event; null: no longer. The watch outlives its time here.
  void observe(StepWatch* watch) { watch_ = watch; }

  /// The last kEvents of them, oldest first.
  const std::deque<ResidencyEvent>& events() const { return events_; }
  static constexpr std::size_t kEvents = 1024;

 private:
  void look_where_weights_are();
  void feign(SequenceId sequence, std::int64_t tokens);
  bool holds_state_of(int layer, int backend) const {
    const bool feigned =
        std::find(feigned_.begin(), feigned_.end(), std::pair(layer, backend)) != feigned_.end();
    return !feigned && held_[static_cast<std::size_t>(backend)][static_cast<std::size_t>(layer)];
  }
  std::vector<int> missed_layers(SequenceId sequence);
  bool may_live(int layer, int backend) const;
  int backend_for(const std::vector<int>& layers, SequenceId sequence) const;
  std::vector<int> new_homes(SequenceId sequence, const std::vector<int>& layers, bool whole) const;
  void act(SequenceId sequence, MissPolicy policy, const std::vector<int>& layers, ResidencyEvent& event,
           OwnedLock* lock);
  void replay(SequenceId sequence, const std::vector<int>& homes, OwnedLock* lock);
  const std::string& backend_name(int backend) const {
    return plan_.backend_names[static_cast<std::size_t>(backend)];
  }

  const Plan& plan_;
  const Residents& residents_;
  StateManager& state_;
  Scheduler& scheduler_;
  Faults* faults_;
  std::vector<std::pair<int, int>> feigned_;  ///< layers and backends that count as without their weights
  std::map<std::int64_t, std::pair<std::int64_t, MissPolicy>> policies_;  ///< generation, by index
  std::vector<std::vector<bool>> held_;  ///< by backend and layer: the weights of its stateful part
  std::uint64_t held_when_ = 0;          ///< Residents::changes() of that
  std::deque<ResidencyEvent> events_;
  StepWatch* watch_ = nullptr;  ///< null: nobody watches
};

}  // namespace tandem
