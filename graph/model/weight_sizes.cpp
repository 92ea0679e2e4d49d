#include "graph/model/weight_sizes.hpp"

#include <functional>
#include <numeric>

#include "core/error.hpp"

namespace tandem {
namespace {

WeightSize size_in_gear(const Weight& weight) {
  const DType type = weight.kind == WeightKind::matrix ? weight_dtype(weight.gear) : DType::f32;
  const std::int64_t elements = checked_elements(weight.shape, "weight");
  checked_mul(elements, static_cast<std::int64_t>(sizeof(float)), "weight");  // no type is larger
  return {storage_bytes(type, elements), true};
}

/// A matrix in 4 bits, whose size ModelFiles has checked.
bool stored_in_4_bits(const Weight& weight, const ModelFiles& files) {
  if (!is_4_bit(files.stored_gear(weight))) return false;
  if (is_4_bit(weight.gear)) return true;
  fail(ErrorCode::mismatch, "tensor '{}' is stored in 4 bits and was asked for in {}: choose q4 or q4q8",
       weight.name, name(weight.gear));
}

void require_stored_size(const Weight& weight, const ModelFiles& files) {
  const TensorInfo& info = files.info(weight);
  if (stored_in_4_bits(weight, files)) return;
  if (info.dtype != "F32" && info.dtype != "BF16" && info.dtype != "F16") {
    fail(ErrorCode::mismatch, "tensor '{}' is {}, expected F32, BF16 or F16", weight.name, info.dtype);
  }
  const std::int64_t elements =
      std::accumulate(info.dims.begin(), info.dims.end(), std::int64_t{1}, std::multiplies<>());
  if (elements != weight.shape.elements()) {
    fail(ErrorCode::mismatch, "tensor '{}' is [{}], the configuration asks for {}", weight.name,
         fmt::join(info.dims, ", "), to_string(weight.shape));
  }
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

WeightSizes weight_sizes(const Graph& graph, const ModelFiles& files) {
  WeightSizes sizes;
  for (const Weight& weight : graph.weights()) {
    require_stored_size(weight, files);
    sizes.push_back(size_in_gear(weight));
  }
  return sizes;
}

WeightSizes weight_sizes(const Graph& graph) {
  WeightSizes sizes;
  for (const Weight& weight : graph.weights()) sizes.push_back(size_in_gear(weight));
  return sizes;
}

}  // namespace tandem
