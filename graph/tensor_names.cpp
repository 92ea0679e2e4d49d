#include "graph/tensor_names.hpp"

namespace tandem {

std::vector<std::string> tensor_names(const std::string& weight) {
  if (weight.starts_with("lm_head.")) return {weight, "model." + weight, "model.language_model." + weight};
  return {"model.language_model." + weight, "model." + weight};
}

}  // namespace tandem
