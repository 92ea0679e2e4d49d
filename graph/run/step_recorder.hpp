#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/backend.hpp"
#include "core/stopwatch.hpp"
#include "graph/run/executor.hpp"
#include "graph/run/step_observer.hpp"
#include "state/state_manager.hpp"

namespace tandem {

/// Who watches a session, since when, and what its recorders have in common.
///
/// Thread-safe. The observer is called by tell() and tell_step() alone, once at a time, with no lock of the
/// state held. Observer, graph, backends and state outlive it.
class StepWatch {
 public:
  /// With `verify`, states are downloaded twice for their checksums and compared.
  StepWatch(StepObserver& observer, const Graph& graph, std::vector<Backend*> backends,
            const StateManager& state, bool verify)
      : observer_(observer), graph_(graph), backends_(std::move(backends)), state_(state), verify_(verify) {}

  double now_ms() const { return since_begin_.milliseconds(); }
  /// This has happened just now, and is told later.
  void residency(const ResidencyEvent& event);
  /// Tells what has happened. Does not throw: what the observer throws is kept.
  void tell() noexcept;
  /// Throws what the observer has thrown of something that was done already, once.
  void rethrow();
  /// tell(), then the step, which has its number from here on. Throws what the observer throws.
  void tell_step(ObservedStep& step);

 private:
  friend class StepRecorder;
  using Happened = std::pair<ResidencyEvent, TimeSpan>;

  std::optional<Happened> next();
  void tell_all() noexcept;

  StepObserver& observer_;
  const Graph& graph_;
  std::vector<Backend*> backends_;
  const StateManager& state_;
  bool verify_;
  Stopwatch since_begin_;
  std::mutex telling_;  ///< who has it calls the observer
  std::int64_t committed_ = 0;
  std::mutex happened_mutex_;  ///< guards the next two
  std::deque<Happened> happened_;
  std::exception_ptr thrown_;
};

/// Puts together what a StepObserver is told of one step, while scheduler and executor work. It adds marks to
/// the order of a backend's work (Backend::record) and waits for nothing, so that what is computed, and in
/// which order, is the same with and without it. One that goes without tell() leaves no trace.
///
/// Steps that run at the same time have a recorder each. Not thread-safe. The watch outlives it.
class StepRecorder {
 public:
  /// A step begins.
  explicit StepRecorder(StepWatch& watch);

  double now_ms() const { return watch_.now_ms(); }

  /// The scheduler: the step is of these sequences; it is computed, and so many parts of each sequence are
  /// about to be committed. Throws what the observer throws, and what downloading states for it throws;
  /// Error(mismatch) when two downloads differ.
  void add_sequence(SequenceId sequence, std::int64_t tokens, std::int64_t outputs);
  void tell(std::span<const StateStep> steps, std::span<const int> parts);

  /// The executor: a run of these sequences begins; its next node; the node's operator is about to be
  /// submitted to a backend; the last one was; everything has been waited for.
  void begin_run(const Plan& plan, std::span<const SequenceRows> sequences);
  void next(const Node& node);
  void compute(int backend);
  void end_nodes();
  void end_run();

  /// Two marks of a backend around something submitted to it.
  struct Marks {
    std::unique_ptr<Event> begin, end;
  };
  std::unique_ptr<Event> mark(int backend) const { return at(backend).record(); }
  void crossed(const Crossing& crossing, std::int64_t bytes, Marks received, Marks sent);
  void waited(int backend, std::string_view what, double begin_ms);

 private:
  struct PendingPart {
    ObservedPart part;
    Marks marks;
  };
  struct PendingTransfer {
    ObservedTransfer transfer;
    Marks received, sent;
  };

  Backend& at(int backend) const { return *watch_.backends_[static_cast<std::size_t>(backend)]; }
  TimeSpan resolve(int backend, const Marks& marks) const;
  void add_checksums(ObservedSequence& sequence, const StateStep& step, int part) const;

  StepWatch& watch_;
  ObservedStep step_;
  ObservedRun run_;
  const Node* node_ = nullptr;  ///< the next one, or the one that was submitted last
  std::vector<PendingPart> parts_;
  std::vector<PendingTransfer> transfers_;
  std::vector<double> run_begin_ms_;  ///< by backend of the run: the host's clock before the mark
  std::vector<std::unique_ptr<Event>> run_begin_;  ///< by backend; null where the run does not go
};

}  // namespace tandem
