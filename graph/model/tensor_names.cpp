#include "graph/model/tensor_names.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tandem {

std::vector<std::string> tensor_names(const std::string& weight) {
  if (weight.starts_with("lm_head.")) return {weight, "model." + weight, "model.language_model." + weight};
  return {"model.language_model." + weight, "model." + weight};
}

WeightId weight_named(const Graph& graph, std::string_view name) {
  const std::vector<Weight>& weights = graph.weights();
  const auto found = std::find_if(weights.begin(), weights.end(), [&](auto& w) { return w.name == name; });
  if (found == weights.end()) fail(ErrorCode::not_found, "the model has no weight '{}'", name);
  return static_cast<WeightId>(found - weights.begin());
}

std::string new_tensor_name(const std::string& weight) {
  return weight.starts_with("lm_head.") ? weight : "model." + weight;
}

Shape stored_shape(const Weight& weight) {
  const Shape& shape = weight.shape;
  return weight.name.ends_with("conv1d.weight") ? Shape{shape[0], 1, shape[1]} : shape;
}

}  // namespace tandem
