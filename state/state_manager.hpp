#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend.hpp"
#include "state/budget.hpp"
#include "state/geometry.hpp"
#include "state/layer_pieces.hpp"
#include "state/page_pool.hpp"
#include "state/sequence.hpp"
#include "state/slot_pool.hpp"
#include "state/state_step.hpp"

namespace tandem {

/// What the state takes on one backend. Zero slots are counted as reserved and never as used: with all
/// sequences closed, whatever is called used is 0.
struct StateUsage {
  std::string backend;
  std::int64_t reserved_bytes = 0;  ///< allocated at construction
  std::int64_t used_bytes = 0;      ///< of it, holding some sequence's state
  std::int64_t slots_total = 0;
  std::int64_t slots_used = 0;
  std::int64_t pages_total = 0;
  std::int64_t pages_used = 0;

  bool operator==(const StateUsage&) const = default;
};

/// Remembers sequences: what each layer knows of the tokens so far, where that is, and a few versions of it.
///
/// A recurrent layer's state is a version in a slot. A step reads the slots of version n and writes other
/// slots; commit, abort, rollback and fork change indices and copy nothing. Keys and values are in pages that
/// only ever grow; a version of them is a number of tokens. A page that several sequences share is copied
/// when one of them is about to write into it, and not before.
///
/// Every verb either does all it says or throws tandem::Error and changes nothing. A sequence has one open
/// step at most; while it has, begin, fork, rollback, reset, close and migrate (migration.hpp) of it throw
/// Error(invalid_argument), and everything else works. Every verb throws Error(not_found) for a sequence that
/// is not open
/// ("sequence 3.7 was closed").
///
/// All memory is allocated by the constructor, so that a sequence once admitted cannot fail for want of it
/// (budget.hpp has the rule and the proof).
///
/// Not thread-safe: one thread at a time for a manager, its verbs and the beginning and end of its steps, and
/// one for each backend. The exception that lets steps be computed side by side: accessors of an open step
/// (StateStep) may be called while another thread uses verbs of other sequences. Neither copied nor moved, as
/// steps point to it.
class StateManager {
 public:
  /// backends[i] may hold the state of as many layers of a sequence as capacities[i] says.
  ///
  /// Compares what that takes with Backend::available_bytes() of each backend before it allocates anything,
  /// then allocates and writes the zero slots. Where state may go from host memory to a device, host memory
  /// is page-locked if the system allows it, so that the device copies it by itself (migration.hpp). Throws
  /// Error(out_of_memory) with the budget and both numbers, Error(invalid_argument) for a geometry, capacity
  /// or budget without meaning, Error(mismatch) when a backend computes in another element type or the two
  /// lists differ in length, and what the backends throw.
  ///
  /// The backends outlive the manager.
  StateManager(StateGeometry geometry, std::vector<Backend*> backends, std::vector<LayerCapacity> capacities,
               StateBudget budget);
  StateManager(const StateManager&) = delete;
  StateManager& operator=(const StateManager&) = delete;
  /// REQUIRES: no step is open. Open sequences are closed.
  ~StateManager();

  const StateGeometry& geometry() const { return geometry_; }
  const StateBudget& budget() const { return budget_; }
  /// One entry per backend, in their order.
  std::vector<StateUsage> usage() const;

  /// A sequence of 0 tokens: version 0, every recurrent layer at the zero slot, no pages.
  /// Throws Error(mismatch) when there is not one home per layer, or residency is uniform and the homes are
  /// not; Error(invalid_argument) when a home is no backend; Error(out_of_memory) when the budget's sequences
  /// are all open (a sequence to rebuild another one may be one more, where all of its homes have a place to
  /// spare), or more layers are to live on a backend than it has room for.
  SequenceId open(const SequenceOptions& options);

  /// Another sequence with the same homes, tokens and kept versions. Copies no state; from here on both go
  /// their own ways. Throws Error(out_of_memory) when the budget's sequences are all open.
  SequenceId fork(SequenceId id);

  /// Starts the step of the next `tokens` tokens, at least 1, which writes a version after each of the last
  /// `versions` of them. Reserves all that it may need first: a slot per recurrent layer and version, the new
  /// pages, and a copy of the last page where it is partly filled and shared. Throws Error(invalid_argument)
  /// when the context would be exceeded, with the numbers, or `versions` is not in 1 .. tokens or more than
  /// the budget's step_versions; and what Backend::copy throws.
  StateStep begin(SequenceId id, std::int64_t tokens, std::int64_t versions = 1);

  /// Returns to a kept version: it becomes the newest, later ones are forgotten and their slots and pages
  /// given back. To the newest: no effect. Throws Error(not_found) listing the kept versions when it is not
  /// one of them.
  void rollback(SequenceId id, std::int64_t version);

  /// Back to 0 tokens, as freshly opened, except that the version has the next number instead of 0.
  void reset(SequenceId id);

  /// Takes the state that `rebuilt` has come to by the same tokens, and its homes; `rebuilt` is closed.
  /// Versions keep their numbers: each kept one of `id` becomes the version of `rebuilt` that has as many
  /// tokens; one of 0 tokens needs none. That the bits agree is the caller's promise. Throws Error(mismatch)
  /// when `rebuilt` has no such version (with Older::forgotten: when it lacks one that is not older than all
  /// of its own but its beginning; older ones are no longer kept) or another number of tokens, or the
  /// residency differs; Error(invalid_argument) when they are the same sequence.
  enum class Older : std::uint8_t { required, forgotten };
  void replace(SequenceId id, SequenceId rebuilt, Older older = Older::required);

  /// Gives back everything. The id is stale from here on.
  void close(SequenceId id);

  /// Whether there is such a sequence and it was not closed.
  bool is_open(SequenceId id) const;
  /// The kept versions, oldest first; at least one.
  std::vector<VersionInfo> versions(SequenceId id) const;
  /// Of the newest version.
  std::int64_t tokens(SequenceId id) const;
  Residency residency(SequenceId id) const;
  /// Whether the sequence, or one that it was forked from, ever went on without its state; until it is
  /// closed.
  bool unsafe(SequenceId id) const { return find(id).unsafe; }
  /// Index of the backend where the layer's state lives. Throws Error(invalid_argument) when there is no such
  /// layer.
  int home(SequenceId id, int layer) const;
  /// Of all layers. Valid until the sequence is closed; changed by a migration only.
  const std::vector<int>& homes(SequenceId id) const { return find(id).home; }

  /// A layer of a kept version, to read: of the newest unless `version` says another. A step that is open is
  /// not seen.
  /// Throws Error(invalid_argument) when there is no such layer, Error(not_found) when the version is not
  /// kept. Valid until a verb changes the sequence.
  LayerView view(SequenceId id, int layer, std::optional<std::int64_t> version = {}) const;
  /// What the layer keeps, as a list. REQUIRES: there is such a layer.
  const LayerPieces& pieces(int layer) const { return pieces_[static_cast<std::size_t>(layer)]; }

 private:
  friend class StateStep;
  friend class Migration;
  friend class UnsafeRestart;

  /// What the manager has on one backend.
  struct Place {
    /// `device`: the one that is to reach the memory, or null.
    Place(Backend& where, const StateGeometry& geometry, const LayerCapacity& room, const PoolSizes& sizes,
          Backend* device, const StateBudget& budget)
        : backend(&where),
          capacity(room),
          slots(where, geometry, sizes.slots, device, budget.poison, budget.verify),
          pages(where, geometry, sizes.pages, device, budget.poison) {}

    Backend* backend;
    LayerCapacity capacity;
    SlotPool slots;
    PagePool pages;
  };

  struct Entry {
    std::int64_t generation = 0;
    std::unique_ptr<Sequence> sequence;
  };

  /// What a step adds to the pages of one layer.
  struct PageGrowth {
    BlockRef copy;  ///< takes the last page's place; empty when that is not needed
    std::vector<BlockRef> fresh;
  };

  const std::string& backend_name(int backend) const { return places_[backend].backend->info().name; }
  int layer_count() const { return static_cast<int>(geometry_.layers.size()); }

  const Sequence& find(SequenceId id) const;
  /// find(), and throws when a step is open: `verb` cannot be done then.
  Sequence& find_idle(SequenceId id, std::string_view verb);
  const Version& find_version(const Sequence& sequence, std::int64_t number) const;
  LayerView view_of(const Sequence& sequence, const Version& version, int layer) const;
  void require_layer(int layer) const;
  void require_resident(const Sequence& sequence, int layer, int backend, LayerKind kind) const;
  void require_homes(const SequenceOptions& options) const;
  void require_room(const Sequence& sequence, std::int64_t tokens) const;

  Version zero_version(const Sequence& sequence) const;
  bool has_spare_place(const SequenceOptions& options) const;
  SequenceId admit(Sequence sequence);
  void require_versions(std::int64_t tokens, std::int64_t versions) const;
  Version reserve_version(const Sequence& sequence, const VersionInfo& info);
  std::vector<Version> reserve_versions(const Sequence& sequence, std::int64_t tokens, std::int64_t versions);
  std::vector<PageGrowth> reserve_pages(Sequence& sequence, std::int64_t tokens);

  StateGeometry geometry_;
  std::vector<LayerPieces> pieces_;  ///< by layer
  StateBudget budget_;
  std::deque<Place> places_;    ///< by backend; a deque, as pools stay where they are
  std::vector<Entry> entries_;  ///< by index of SequenceId; after places_, as blocks go back to their pools
};

}  // namespace tandem
