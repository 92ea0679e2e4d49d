#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/checksum.hpp"
#include "graph/model/graph.hpp"
#include "graph/run/residency_event.hpp"
#include "state/sequence.hpp"

namespace tandem {

/// Milliseconds of the host's steady clock since the observation began. What a device did is measured by its
/// own clock and laid on the host's by a mark at the beginning of the run: order and lengths are the
/// device's, the offset is too early by what the mark took to get there (microseconds).
struct TimeSpan {
  double begin_ms = 0;
  double end_ms = 0;

  double ms() const { return end_ms - begin_ms; }
};

/// A part of a layer, or embedding or head (layer kNoLayer), on the backend that computed it.
struct ObservedPart {
  int layer = kNoLayer;
  Part part = Part::embedding;
  int backend = 0;
  TimeSpan time;
};

/// A value that went from one backend to another, through staging memory, before a part could begin.
struct ObservedTransfer {
  std::string value;
  int layer = kNoLayer;  ///< of the part that reads it
  Part part = Part::embedding;
  int from = 0;
  int to = 0;
  Rows rows = Rows::tokens;
  std::int64_t row_bytes = 0;
  std::int64_t bytes = 0;
  TimeSpan received;  ///< out of `from`, by its clock
  TimeSpan sent;      ///< into `to`, by its clock
};

/// The host stood still until a backend had done something.
struct ObservedWait {
  int backend = 0;
  std::string_view what;  ///< "value", "staging memory", "end of the run"
  TimeSpan time;
};

/// The sequences of a step whose layers run in the same places, computed together.
struct ObservedRun {
  std::vector<std::size_t> sequences;  ///< indices into ObservedStep::sequences
  std::vector<ObservedPart> parts;     ///< in the order of execution, as the next
  std::vector<ObservedTransfer> transfers;
  std::vector<ObservedWait> waits;
};

struct ObservedSequence {
  SequenceId sequence;
  std::int64_t position = 0;  ///< tokens that it had before
  std::int64_t tokens = 0;    ///< of this step, which all of it computes
  std::int64_t accepted = 0;  ///< of them, those that were committed: fewer where a draft was wrong
  std::int64_t outputs = 0;   ///< rows of logits
  std::int64_t version_read = 0;
  std::int64_t version_written = 0;
  std::vector<int> homes;           ///< by layer: the backend where the state was read and written
  std::vector<Checksum> checksums;  ///< by layer, of the state written; empty unless asked for

  /// Its share of a transfer of its run: the rows are its own.
  std::int64_t bytes_of(const ObservedTransfer& transfer) const {
    return transfer.row_bytes * (transfer.rows == Rows::tokens ? tokens : outputs);
  }
};

/// A step that is committed as soon as it was told. One that failed is not reported.
struct ObservedStep {
  std::int64_t number = 0;  ///< committed steps of this observation before it
  TimeSpan time;
  std::vector<ObservedSequence> sequences;
  std::vector<ObservedRun> runs;
};

/// Is told what a session does. Backends are given by their index in the session's plan. Called by the thread
/// that takes the step: the session may be looked at (tokens, versions, holds, events, lost); what needs a
/// backend is refused there with Error(invalid_argument). Steps that end at the same time are told one after
/// the other, while other threads wait for the backends of the step: keep it short.
class StepObserver {
 public:
  virtual ~StepObserver() = default;

  /// All is computed and only the commit is left, which cannot fail: the session shows the sequences as they
  /// were before. What this throws aborts the step, and nothing has happened.
  virtual void step(const ObservedStep& step) = 0;
  /// A miss (before the step that found it, and after the steps of a replay), a migration, a mirror's copy, a
  /// loss. It has been done; what this throws is thrown by the session's next step, load or migration, before
  /// that does anything, or by Session::observe.
  virtual void residency(const ResidencyEvent& event, const TimeSpan& time) = 0;
  /// Whether every state written is to be downloaded and its checksum taken.
  virtual bool wants_checksums() const { return false; }
};

}  // namespace tandem
