#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/ops.hpp"
#include "core/tensor.hpp"
#include "state/sequence.hpp"

namespace tandem {

class StateManager;
struct LayerView;

/// The next tokens of one sequence, as a transaction: reads the newest version, writes those after it.
/// Everything that it may need was reserved by StateManager::begin. Until commit() nothing of it can be seen,
/// and going without one, by destruction or assignment, is an abort: the sequence is as before, every byte
/// below position().
///
/// The tokens come in `parts()` parts, one for each version that the step writes: all tokens up to the first
/// version, then one token each. The caller has each layer computed once: a recurrent layer takes part after
/// part, for each reads recurrent_in and conv_in and writes all of recurrent_out and conv_out; an attention
/// layer writes positions position() .. position() + tokens() of its pages and may read all below. A layer
/// that was left out is committed with unknown contents. Pages are shared below position() and must not be
/// written there.
///
/// `backend` is the index of the backend that is about to compute. Away from the layer's home every accessor
/// throws Error(not_resident) naming layer, home and where it was asked for. They also throw
/// Error(invalid_argument) when there is no such layer, part or backend, the layer is of the other kind, or
/// the step is over. Nothing changes then, and the step stays open.
///
/// Tensors and pages are views of the manager's memory, valid until the step is over.
///
/// Move-only. REQUIRES: the manager outlives it. Thread-safety: commit() and going without one as the
/// manager's verbs; all else by one thread at a time, whatever others do with other sequences meanwhile.
class StateStep {
 public:
  StateStep(StateStep&& other) noexcept;
  StateStep& operator=(StateStep&& other) noexcept;
  ~StateStep();

  /// False after commit() and when moved from.
  bool open() const { return sequence_ != nullptr; }

  /// REQUIRES, for these five: open().
  SequenceId sequence() const { return sequence_->id; }
  std::int64_t position() const;  ///< tokens of the sequence before this step
  std::int64_t tokens() const;    ///< of this step

  int parts() const;
  /// Rows of this step's tokens, counted from its first. REQUIRES: 0 <= part < parts().
  RowRange part(int part) const;

  /// real [value_heads, key_dim, value_dim]: what the part before wrote, or the newest version.
  ConstTensor recurrent_in(int layer, int backend, int part = 0) const;
  /// The same shape in other memory, contents unknown.
  Tensor recurrent_out(int layer, int backend, int part = 0) const;
  /// real [conv_kernel - 1, conv_channels]
  ConstTensor conv_in(int layer, int backend, int part = 0) const;
  Tensor conv_out(int layer, int backend, int part = 0) const;

  /// ceil((position() + tokens()) / page_tokens) pages in order of position, each real [2, kv_heads,
  /// page_tokens, head_dim].
  std::span<void* const> pages(int layer, int backend) const;

  /// The version that a part writes, as it will be once committed: to be read when it was computed.
  /// REQUIRES: 0 <= part < parts().
  VersionInfo version(int part) const { return sequence_->next[static_cast<std::size_t>(part)].info; }
  /// Index of the backend where a layer is read and written. REQUIRES: there is such a layer.
  int home(int layer) const { return sequence_->home[static_cast<std::size_t>(layer)]; }
  /// A layer of that version: where it is, to be written by who knows already what it is to be, or to be read
  /// when it was computed. Throws Error(invalid_argument) when there is no such layer or the step is over.
  LayerView view(int layer, int part) const;

  /// Makes what was written the newest versions; gives back the oldest ones when more than kept_versions are
  /// there. REQUIRES: open().
  void commit() noexcept;
  /// As commit, of the first `count` parts alone: the tokens of the others have not happened.
  /// REQUIRES: open(), 1 <= count <= parts().
  void commit(int count) noexcept;

 private:
  friend class StateManager;
  StateStep(const StateManager& manager, Sequence& sequence) : manager_(&manager), sequence_(&sequence) {}

  void abort() noexcept;
  void require_open(int layer) const;
  Tensor piece_of(const BlockRef& slot, int layer, std::string_view name) const;
  const Sequence& resident(int layer, int backend, LayerKind kind) const;
  const BlockRef& slot_in(int layer, int backend, int part) const;
  const BlockRef& slot_out(int layer, int backend, int part) const;

  const StateManager* manager_;
  Sequence* sequence_;  ///< null when over; as no sequence with an open step can be closed, never dangling
};

}  // namespace tandem
