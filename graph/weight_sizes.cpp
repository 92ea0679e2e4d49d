#include "graph/weight_sizes.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/error.hpp"
#include "graph/tensor_names.hpp"

namespace tandem {
namespace {

const TensorInfo& info_of(const Checkpoint& checkpoint, const Weight& weight) {
  const std::vector<std::string> names = tensor_names(weight.name);
  const auto found =
      std::find_if(names.begin(), names.end(), [&](auto& name) { return checkpoint.contains(name); });
  if (found == names.end()) {
    fail(ErrorCode::not_found, "tensor '{}' is missing (looked for {})", weight.name, fmt::join(names, ", "));
  }
  return checkpoint.info(*found);
}

std::int64_t bytes_as(const Weight& weight, DType type) {
  return checked_mul(checked_elements(weight.shape, "weight"), static_cast<std::int64_t>(size_of(type)),
                     "weight");
}

bool kept_as_bf16(const Weight& weight, const std::string& dtype) {
  return weight.kind == WeightKind::matrix && dtype == "BF16";
}

}  // namespace

WeightSizes weight_sizes(const Model& model) {
  WeightSizes sizes;
  for (std::size_t i = 0; i < model.graph().weights().size(); ++i) {
    const WeightData& weight = model.weight(static_cast<WeightId>(i));
    sizes.push_back({weight.view.bytes(), !weight.random});
  }
  return sizes;
}

WeightSizes weight_sizes(const Graph& graph, const Checkpoint& checkpoint) {
  WeightSizes sizes;
  for (const Weight& weight : graph.weights()) {
    const TensorInfo& info = info_of(checkpoint, weight);
    if (info.dtype != "F32" && info.dtype != "BF16" && info.dtype != "F16") {
      fail(ErrorCode::mismatch, "tensor '{}' is {}, expected F32, BF16 or F16", weight.name, info.dtype);
    }
    const std::int64_t elements =
        std::accumulate(info.dims.begin(), info.dims.end(), std::int64_t{1}, std::multiplies<>());
    if (elements != weight.shape.elements()) {
      fail(ErrorCode::mismatch, "tensor '{}' is [{}], the configuration asks for {}", weight.name,
           fmt::join(info.dims, ", "), to_string(weight.shape));
    }
    sizes.push_back({bytes_as(weight, kept_as_bf16(weight, info.dtype) ? DType::bf16 : DType::f32), true});
  }
  return sizes;
}

WeightSizes weight_sizes(const Graph& graph) {
  WeightSizes sizes;
  for (const Weight& weight : graph.weights()) {
    sizes.push_back({bytes_as(weight, kept_as_bf16(weight, "BF16") ? DType::bf16 : DType::f32), true});
  }
  return sizes;
}

}  // namespace tandem
