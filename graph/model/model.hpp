#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "core/io/model_config.hpp"
#include "core/q4_quantizer.hpp"
#include "graph/model/graph.hpp"
#include "graph/model/weight_data.hpp"

namespace tandem {

class ModelFiles;

/// Where weights come from, by their name in the graph. What is returned has any supported element type.
using WeightSource = std::function<WeightData(const Weight&)>;

/// What was made of a weight that is stored in another type than its gear's.
struct Conversion {
  WeightId weight;
  DType from;
  std::int64_t bytes_before = 0;
  std::int64_t bytes_after = 0;
  Q4Error error;  ///< zero unless it was quantised
};

/// Called while weights are looked up: how many of how many.
using WeightProgress = std::function<void(std::size_t done, std::size_t total)>;

/// A model's graph and weights, in host memory or as recipes of random values; which backend holds which is
/// not its business. Immutable, safe to use from several threads.
class Model {
 public:
  /// Opens a Hugging Face directory (config.json and safetensors) in the gears asked for. Every weight of the
  /// graph is looked up and its shape checked; data that have the type of their gear stay in the file
  /// mapping, others are converted into host memory now. Throws what ModelFiles throws, Error(not_found) for
  /// a missing tensor, Error(mismatch) for a wrong shape or type, and what WeightConverter throws.
  static std::shared_ptr<const Model> open(const std::filesystem::path& directory, const Gears& gears = {},
                                           const WeightProgress& progress = {});

  /// The same of files that are open already.
  static std::shared_ptr<const Model> open(const ModelFiles& files, const Gears& gears = {},
                                           const WeightProgress& progress = {});

  /// A model from any source of weights, converted to the gears of the graph. Random matrices stay recipes;
  /// random vectors are made at once. Throws as above.
  Model(ModelConfig config, Graph graph, const WeightSource& source, const WeightProgress& progress = {});

  const ModelConfig& config() const { return config_; }
  const Graph& graph() const { return graph_; }
  const WeightData& weight(WeightId id) const { return weights_[static_cast<std::size_t>(id)]; }

  /// The matrices that were converted, in the order of their ids.
  const std::vector<Conversion>& conversions() const { return conversions_; }

  /// Of all weights as the backends get them.
  std::int64_t weight_bytes() const;
  std::int64_t parameters() const;
  /// XXH3 of the arithmetic version, of every field of the configuration that decides a bit, and of names,
  /// shapes, types and gears of all weights, with their values: vectors whole, of matrices the first and the
  /// last 2 KiB. It tells models apart cheaply. It does not see a change in the middle of a matrix, and is no
  /// proof against tampering. 32 hexadecimal digits (graph/model/fingerprint.hpp).
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  ModelConfig config_;
  Graph graph_;
  std::vector<WeightData> weights_;
  std::vector<Conversion> conversions_;
  std::string fingerprint_;
};

/// Sum of the sizes of a graph's weights, without having them.
std::int64_t parameter_count(const Graph& graph);

}  // namespace tandem
