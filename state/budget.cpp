#include "state/budget.hpp"

#include "core/error.hpp"
#include "core/shape.hpp"

namespace tandem {
namespace {

void require_positive(std::int64_t value, const char* field) {
  if (value < 1)
    fail(ErrorCode::invalid_argument, "state budget: {} is {}, expected at least 1", field, value);
}

void require_capacity(std::int64_t asked, const StateGeometry& geometry, LayerKind kind) {
  const std::int64_t layers = geometry.count(kind);
  if (asked < 0 || asked > layers) {
    fail(ErrorCode::invalid_argument, "state budget: room for {} {} layers on a backend, expected 0 to {}",
         asked, state_name(kind), layers);
  }
}

}  // namespace

PoolSizes pool_sizes(const StateGeometry& geometry, const LayerCapacity& capacity,
                     const StateBudget& budget) {
  validate(geometry);
  require_positive(budget.sequences, "sequences");
  require_positive(budget.context_tokens, "context_tokens");
  require_positive(budget.kept_versions, "kept_versions");
  require_positive(budget.step_versions, "step_versions");
  require_capacity(capacity.recurrent, geometry, LayerKind::recurrent);
  require_capacity(capacity.kv, geometry, LayerKind::attention);

  if (capacity.spare < 0) {
    fail(ErrorCode::invalid_argument, "state budget: {} spare sequences, expected at least 0",
         capacity.spare);
  }
  const std::int64_t sequences = checked_add(budget.sequences, capacity.spare, "sequences");

  PoolSizes sizes;
  if (capacity.recurrent > 0) {
    const std::int64_t versions = checked_add(budget.kept_versions, budget.step_versions, "slots");
    const std::int64_t per_layer = checked_mul(sequences, versions, "slots");
    sizes.slots = checked_add(1, checked_mul(capacity.recurrent, per_layer, "slots"), "slots");
    sizes.bytes = checked_mul(sizes.slots, geometry.slot_bytes(), "bytes of all slots");
  }
  if (capacity.kv > 0) {
    const std::int64_t per_layer = checked_mul(sequences, geometry.pages_for(budget.context_tokens), "pages");
    sizes.pages = checked_mul(capacity.kv, per_layer, "pages");
    const std::int64_t bytes = checked_mul(sizes.pages, geometry.page_stride(), "bytes of all pages");
    sizes.bytes = checked_add(sizes.bytes, bytes, "bytes of all state");
  }
  return sizes;
}

}  // namespace tandem
