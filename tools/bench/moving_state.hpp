#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "state/migration.hpp"

namespace tandem::tools {

/// The recurrent layers of a geometry alone. Throws Error(unsupported) when it has none.
StateGeometry recurrent_part(const StateGeometry& geometry);

/// Sequences of random state that live on the host and go to another backend and back, one at a time.
/// Everything is allocated by the constructor. Not thread-safe. The backends outlive it.
class MovingState {
 public:
  /// Takes a sequence's state `sequences` times two on each backend, and once for the copies of copy_ms.
  /// Throws as StateManager and Backend.
  MovingState(Backend& host, Backend& other, const StateGeometry& geometry, std::int64_t sequences);
  ~MovingState();

  std::int64_t sequences() const { return std::ssize(ids_); }
  /// Of a sequence's state.
  std::int64_t bytes() const;

  /// A plain copy of as many bytes between staging memory and the other backend, in one piece: what a
  /// migration cannot beat. Milliseconds on the host's clock.
  double copy_there_ms();
  double copy_back_ms();

  /// As migrate().
  MigrationReport move_there(std::int64_t sequence) { return move(sequence, 1); }
  MigrationReport move_back(std::int64_t sequence) { return move(sequence, 0); }

  /// Elements of all sequences, and those that are not as they were made.
  std::int64_t elements() const;
  std::int64_t count_different() const;

 private:
  MigrationReport move(std::int64_t sequence, int backend);
  /// Bytes of a layer's slot as it was made: recurrent, then conv.
  std::vector<std::byte> made(std::int64_t sequence, int layer) const;
  void fill(std::int64_t sequence);

  Backend& other_;
  std::unique_ptr<StateManager> state_;
  std::vector<SequenceId> ids_;
  Buffer staging_, memory_;
};

/// What the verbs on versions take on one backend, and what they move and keep.
struct VerbCost {
  std::vector<double> microseconds;
  std::int64_t bytes_moved = 0;         ///< by Traffic, over all runs: nothing
  std::int64_t bytes_beyond_slots = 0;  ///< of memory that came into use, beside whole slots: none
};
struct VerbCosts {
  std::int64_t kept_versions = 0;
  VerbCost step;  ///< begin and commit, nothing computed, while versions are kept
  VerbCost fork;
  VerbCost rollback;  ///< to the oldest kept version
};
VerbCosts measure_verbs(Backend& backend, const StateGeometry& geometry, std::int64_t runs);

}  // namespace tandem::tools
