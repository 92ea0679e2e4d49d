#include "graph/model/model.hpp"

#include "core/float_environment.hpp"
#include "graph/model/convert.hpp"
#include "graph/model/fingerprint.hpp"
#include "graph/model/model_files.hpp"

namespace tandem {

Model::Model(ModelConfig config, Graph graph, const WeightSource& source, const WeightProgress& progress)
    : config_(std::move(config)), graph_(std::move(graph)) {
  const FloatEnvironment environment;
  WeightConverter converter;
  if (progress) converter.watch([&] { progress(weights_.size(), graph_.weights().size()); });
  for (const Weight& weight : graph_.weights()) {
    const WeightData stored = source(weight);
    const WeightData& ready = weights_.emplace_back(converter.convert(weight, stored));
    if (weight.kind == WeightKind::matrix && ready.view.dtype != stored.view.dtype) {
      conversions_.push_back({static_cast<WeightId>(weights_.size() - 1), stored.view.dtype,
                              stored.view.bytes(), ready.view.bytes(), converter.error()});
    }
    if (progress) progress(weights_.size(), graph_.weights().size());
  }
  fingerprint_ = fingerprint_of(config_, graph_, weights_);
}

std::shared_ptr<const Model> Model::open(const std::filesystem::path& directory, const Gears& gears,
                                         const WeightProgress& progress) {
  const FloatEnvironment environment;
  return open(ModelFiles(directory), gears, progress);
}

std::shared_ptr<const Model> Model::open(const ModelFiles& files, const Gears& gears,
                                         const WeightProgress& progress) {
  const FloatEnvironment environment;
  const auto source = [&](const Weight& weight) { return files.data(weight); };
  return std::make_shared<const Model>(files.config(), files.graph(gears), source, progress);
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
