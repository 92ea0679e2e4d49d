#include "state/state_step.hpp"

#include <cassert>
#include <utility>

#include "core/error.hpp"
#include "state/slot_pool.hpp"
#include "state/state_manager.hpp"

namespace tandem {

StateStep::StateStep(StateStep&& other) noexcept
    : manager_(other.manager_), sequence_(std::exchange(other.sequence_, nullptr)) {}

StateStep& StateStep::operator=(StateStep&& other) noexcept {
  if (this != &other) {
    abort();
    manager_ = other.manager_;
    sequence_ = std::exchange(other.sequence_, nullptr);
  }
  return *this;
}

StateStep::~StateStep() { abort(); }

std::int64_t StateStep::position() const { return sequence_->newest().info.tokens; }

std::int64_t StateStep::tokens() const { return sequence_->next.back().info.tokens - position(); }

int StateStep::parts() const { return static_cast<int>(sequence_->next.size()); }

RowRange StateStep::part(int part) const {
  assert(part >= 0 && part < parts());
  const auto end = [&](int p) {
    return sequence_->next[static_cast<std::size_t>(p)].info.tokens - position();
  };
  const std::int64_t first = part == 0 ? 0 : end(part - 1);
  return {first, end(part) - first};
}

const BlockRef& StateStep::slot_out(int layer, int backend, int part) const {
  const Sequence& sequence = resident(layer, backend, LayerKind::recurrent);
  if (part < 0 || part >= parts()) {
    fail(ErrorCode::invalid_argument, "part {} of a step does not exist: there are {}, from 0", part,
         parts());
  }
  return sequence.next[static_cast<std::size_t>(part)].slots[static_cast<std::size_t>(layer)];
}

const BlockRef& StateStep::slot_in(int layer, int backend, int part) const {
  slot_out(layer, backend, part);  // throws when there is no such part
  if (part > 0) return slot_out(layer, backend, part - 1);
  return sequence_->newest().slots[static_cast<std::size_t>(layer)];
}

Tensor StateStep::piece_of(const BlockRef& slot, int layer, std::string_view name) const {
  return manager_->pieces(layer).tensor(name, slot.data());
}

ConstTensor StateStep::recurrent_in(int layer, int backend, int part) const {
  return piece_of(slot_in(layer, backend, part), layer, "recurrent");
}

Tensor StateStep::recurrent_out(int layer, int backend, int part) const {
  return piece_of(slot_out(layer, backend, part), layer, "recurrent");
}

ConstTensor StateStep::conv_in(int layer, int backend, int part) const {
  return piece_of(slot_in(layer, backend, part), layer, "conv");
}

Tensor StateStep::conv_out(int layer, int backend, int part) const {
  return piece_of(slot_out(layer, backend, part), layer, "conv");
}

std::span<void* const> StateStep::pages(int layer, int backend) const {
  return resident(layer, backend, LayerKind::attention).pages[layer].data();
}

LayerView StateStep::view(int layer, int part) const {
  require_open(layer);
  manager_->require_layer(layer);
  return manager_->view_of(*sequence_, sequence_->next[static_cast<std::size_t>(part)], layer);
}

void StateStep::commit() noexcept { commit(parts()); }

void StateStep::commit(int count) noexcept {
  assert(open());
  std::exchange(sequence_, nullptr)->commit(count, manager_->budget().kept_versions, manager_->geometry());
}

void StateStep::abort() noexcept {
  if (!open()) return;
  Sequence& sequence = *std::exchange(sequence_, nullptr);
  sequence.keep_oldest(static_cast<std::int64_t>(sequence.versions.size()), manager_->geometry());
}

void StateStep::require_open(int layer) const {
  if (!open()) {
    fail(ErrorCode::invalid_argument,
         "layer {} of a step that is over: it was committed or moved; begin another", layer);
  }
}

const Sequence& StateStep::resident(int layer, int backend, LayerKind kind) const {
  require_open(layer);
  manager_->require_resident(*sequence_, layer, backend, kind);
  return *sequence_;
}

}  // namespace tandem
