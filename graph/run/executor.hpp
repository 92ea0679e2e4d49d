#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/backend.hpp"
#include "graph/model/model.hpp"
#include "graph/placement/plan.hpp"
#include "graph/placement/workspace.hpp"
#include "graph/run/residents.hpp"
#include "state/state_step.hpp"

namespace tandem {

class StepRecorder;

/// One sequence's rows of a batch and its open step.
struct SequenceRows {
  StateStep* state = nullptr;
  RowRange range;
};

/// Host data of an input value: f32 for real values, i32 for indices, [rows, width].
struct InputData {
  ValueId value{};
  ConstTensor host;
};

struct Batch {
  std::int64_t tokens = 0;
  std::int64_t outputs = 0;
  std::span<const SequenceRows> sequences;
  std::span<const InputData> inputs;
  StepRecorder* recorder = nullptr;  ///< null: nobody watches
};

/// Sees every value right after the node that wrote it, as a host copy in the backend's own element type.
using Probe = std::function<void(const Node& node, const Value& value, const ConstTensor& host)>;

/// Runs plans: binds each node's operator to memory, moves what crosses, submits. Knows backends only as the
/// interface. Model, plan, backends and residents outlive it.
///
/// Thread-safety: plans that use different backends (Plan::uses) may run at the same time; nothing else.
class Executor {
 public:
  /// Allocates the workspace and the rotary tables for `context_tokens` positions. All plans that it will run
  /// are `plan` or rerouted from it. Throws Error(out_of_memory).
  ///
  /// With `verify` all that is moved (tables, inputs, values that cross, outputs) is read a second time and
  /// compared: Error(mismatch) when a bit changed on the way. Costs a few more transfers for each.
  Executor(const Model& model, const Plan& plan, std::vector<Backend*> backends, const Residents& residents,
           const StepLimits& limits, std::int64_t context_tokens, bool verify = false);

  /// Runs all nodes, where the plan says (the constructor's, if none is given), and waits for them.
  /// REQUIRES: tokens and outputs within the limits. On an Error the sequences' steps are still open and must
  /// be aborted, and nothing of it is under way any more.
  void run(const Batch& batch, const Probe& probe = {}) { run(plan_, batch, probe); }
  void run(const Plan& plan, const Batch& batch, const Probe& probe = {});

  /// The first `rows` rows of a value after run() of this plan (the constructor's, if none is given), as f32.
  /// REQUIRES: an output of the last node.
  std::vector<float> read(ValueId value, std::int64_t rows) const { return read(plan_, value, rows); }
  std::vector<float> read(const Plan& plan, ValueId value, std::int64_t rows) const;

  /// A backend was lost: what was being moved when that happened is not waited for any more.
  void forget_marks();

  const StepLimits& limits() const { return limits_; }
  std::int64_t workspace_bytes(int backend) const { return workspace_.bytes(backend); }
  /// Values and their bytes that crossed between backends since construction.
  std::uint64_t crossings() const { return crossings_; }
  std::uint64_t crossed_bytes() const { return crossed_bytes_; }

 private:
  class StepBindings;

  /// Where a crossing value lies on the host.
  struct Staging {
    Buffer memory;
    std::unique_ptr<Event> left;  ///< when the last value has gone from here; null before the first
  };
  /// The way to one backend; used by whoever runs there.
  struct Entrance {
    std::array<Staging, 2> staging;  ///< taken in turn
    std::size_t turn = 0;
  };

  void upload_input(const Plan& plan, const InputData& input) const;
  void upload_real(int backend, void* to, std::span<const double> values, std::string_view what) const;
  void require_same(Backend& backend, const void* there, const void* here, std::size_t bytes,
                    std::string_view what) const;
  void upload(int backend, void* to, const void* from, std::size_t bytes, std::string_view what) const;
  void download(int backend, void* to, const void* from, std::size_t bytes) const;
  void require_arrived(const Crossing& crossing, const Tensor& from, const Tensor& to) const;
  void make_rope(std::int64_t context_tokens);
  template <class Real>
  void upload_rope(DType real) const;
  std::vector<ValueId> may_cross() const;
  void make_staging();
  void cross(const Crossing& crossing, const Batch& batch);
  void submit(const Node& node, int backend, const Batch& batch, StepBindings& bindings) const;
  void wait(int backend, std::string_view what, StepRecorder* recorder,
            const std::function<void()>& work) const;
  void show(const Node& node, int backend, const Batch& batch, const Probe& probe) const;
  Tensor tensor(int backend, ValueId value, const Batch& batch) const;

  const Model& model_;
  const Plan& plan_;
  std::vector<Backend*> backends_;
  const Residents& residents_;
  StepLimits limits_;
  Workspace workspace_;
  std::int64_t rope_positions_ = 0;
  std::vector<Buffer> rope_cos_, rope_sin_;  ///< by backend
  std::vector<Entrance> entrances_;          ///< by backend
  std::atomic<std::uint64_t> crossings_ = 0;
  std::atomic<std::uint64_t> crossed_bytes_ = 0;
  bool verify_;
};

}  // namespace tandem
