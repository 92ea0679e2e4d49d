#include "graph/model.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/io/checkpoint.hpp"
#include "graph/fingerprint.hpp"
#include "graph/qwen35.hpp"
#include "graph/tensor_names.hpp"
#include "graph/widen.hpp"

namespace tandem {
namespace {

/// The convolution's weight is stored [C, 1, K].
HostTensor without_middle(HostTensor tensor) {
  const Shape& shape = tensor.view.shape;
  if (shape.rank == 3 && shape[1] == 1)
    tensor.view = {tensor.view.data, tensor.view.dtype, Shape{shape[0], shape[2]}};
  return tensor;
}

HostTensor find_tensor(const Checkpoint& checkpoint, const std::string& directory, const std::string& name) {
  const std::vector<std::string> candidates = tensor_names(name);
  for (const std::string& candidate : candidates) {
    if (checkpoint.contains(candidate)) return without_middle(checkpoint.tensor(candidate));
  }
  fail(ErrorCode::not_found, "{}: tensor '{}' is missing (looked for {})", directory, name,
       fmt::join(candidates, ", "));
}

WeightData as_needed(const Weight& weight, const WeightData& data) {
  const DType type = data.view.dtype;
  if (data.view.shape != weight.shape) {
    fail(ErrorCode::mismatch, "tensor '{}' is {}, the configuration asks for {}", weight.name,
         to_string(data.view.shape), to_string(weight.shape));
  }
  if (type != DType::f32 && type != DType::bf16 && type != DType::f16) {
    fail(ErrorCode::mismatch, "tensor '{}' is {}, expected f32, bf16 or f16", weight.name, name(type));
  }
  const bool is_matrix = weight.kind == WeightKind::matrix;
  if (is_matrix && (data.random || type == DType::bf16)) return data;
  HostTensor tensor = data.on_host();
  return type == DType::f32 ? tensor : widen_to_f32(tensor.view);
}

}  // namespace

Model::Model(ModelConfig config, Graph graph, const WeightSource& source, const WeightProgress& progress)
    : config_(std::move(config)), graph_(std::move(graph)) {
  for (const Weight& weight : graph_.weights()) {
    weights_.push_back(as_needed(weight, source(weight)));
    if (progress) progress(weights_.size(), graph_.weights().size());
  }
  fingerprint_ = fingerprint_of(graph_, weights_);
}

std::shared_ptr<const Model> Model::open(const std::filesystem::path& directory,
                                         const WeightProgress& progress) {
  ModelConfig config = load_model_config(directory);
  const Checkpoint checkpoint = Checkpoint::open(directory);
  const auto source = [&](const Weight& weight) {
    return find_tensor(checkpoint, directory.string(), weight.name);
  };
  Graph graph = build_model_graph(config);
  return std::make_shared<const Model>(std::move(config), std::move(graph), source, progress);
}

std::int64_t Model::weight_bytes() const {
  std::int64_t bytes = 0;
  for (const WeightData& weight : weights_) bytes += weight.view.bytes();
  return bytes;
}

std::int64_t Model::parameters() const { return parameter_count(graph_); }

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const Weight& weight : graph.weights()) count += weight.shape.elements();
  return count;
}

}  // namespace tandem
