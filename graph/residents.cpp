#include "graph/residents.hpp"

#include "core/error.hpp"

namespace tandem {

void Residents::load(const Model& model, const Plan& plan) {
  auto loaded = held_;
  const std::vector<Node>& nodes = model.graph().nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto backend = static_cast<std::size_t>(plan.node_backend[i]);
    for (WeightId id : nodes[i].weights) {
      if (!loaded[backend].contains(id))
        loaded[backend].emplace(id, model.weight(id).load_on(*backends_[backend]));
    }
  }
  held_ = std::move(loaded);
}

const ConstTensor& Residents::get(int backend, WeightId weight) const {
  const auto& held = held_[static_cast<std::size_t>(backend)];
  const auto found = held.find(weight);
  if (found == held.end()) {
    fail(ErrorCode::not_resident,
         "{}: weight {} is not loaded there; load the layer first or run it where it is held",
         backends_[static_cast<std::size_t>(backend)]->info().name, static_cast<int>(weight));
  }
  return found->second.view;
}

std::int64_t Residents::owned_bytes(int backend) const {
  std::int64_t bytes = 0;
  for (const auto& [id, tensor] : held_[static_cast<std::size_t>(backend)]) bytes += tensor.owned_bytes;
  return bytes;
}

}  // namespace tandem
