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

std::int64_t StateStep::tokens() const { return sequence_->next->info.tokens - position(); }

ConstTensor StateStep::recurrent_in(int layer, int backend) const {
  return recurrent_view(manager_->geometry(),
                        resident(layer, backend, LayerKind::recurrent).newest().slots[layer]);
}

Tensor StateStep::recurrent_out(int layer, int backend) const {
  return recurrent_view(manager_->geometry(),
                        resident(layer, backend, LayerKind::recurrent).next->slots[layer]);
}

ConstTensor StateStep::conv_in(int layer, int backend) const {
  return conv_view(manager_->geometry(),
                   resident(layer, backend, LayerKind::recurrent).newest().slots[layer]);
}

Tensor StateStep::conv_out(int layer, int backend) const {
  return conv_view(manager_->geometry(), resident(layer, backend, LayerKind::recurrent).next->slots[layer]);
}

std::span<void* const> StateStep::pages(int layer, int backend) const {
  return resident(layer, backend, LayerKind::kv).pages[layer].data();
}

void StateStep::commit() noexcept {
  assert(open());
  std::exchange(sequence_, nullptr)->commit(manager_->budget().kept_versions);
}

void StateStep::abort() noexcept {
  if (!open()) return;
  Sequence& sequence = *std::exchange(sequence_, nullptr);
  sequence.keep_oldest(static_cast<std::int64_t>(sequence.versions.size()), manager_->geometry());
}

const Sequence& StateStep::resident(int layer, int backend, LayerKind kind) const {
  if (!open()) {
    fail(ErrorCode::invalid_argument,
         "layer {} of a step that is over: it was committed or moved; begin another", layer);
  }
  manager_->require_resident(*sequence_, layer, backend, kind);
  return *sequence_;
}

}  // namespace tandem
