#include "graph/tensor_names.hpp"

namespace tandem {

std::vector<std::string> tensor_names(const std::string& weight) {
  if (weight.starts_with("lm_head.")) return {weight, "model." + weight, "model.language_model." + weight};
  return {"model.language_model." + weight, "model." + weight};
}

std::string new_tensor_name(const std::string& weight) {
  return weight.starts_with("lm_head.") ? weight : "model." + weight;
}

Shape stored_shape(const Weight& weight) {
  const Shape& shape = weight.shape;
  return weight.name.ends_with("conv1d.weight") ? Shape{shape[0], 1, shape[1]} : shape;
}

}  // namespace tandem
