#pragma once

#include <filesystem>

#include "core/io/checkpoint.hpp"
#include "core/io/model_config.hpp"
#include "graph/gear.hpp"
#include "graph/graph.hpp"
#include "graph/weight_data.hpp"

namespace tandem {

/// A Hugging Face directory by the names of the graph: configuration and headers are read, data are not.
/// Immutable, safe to use from several threads.
class ModelFiles {
 public:
  /// Throws what load_model_config and Checkpoint::open throw.
  explicit ModelFiles(const std::filesystem::path& directory);

  const ModelConfig& config() const { return config_; }
  /// The model's graph in the gears asked for; what nothing was asked for is in what it is stored in. Throws
  /// Error(invalid_argument) for a layer that the model has not, and what build_model_graph throws.
  Graph graph(const Gears& asked) const;

  /// What the headers say of a weight. Throws Error(not_found) with the names that were looked for.
  const TensorInfo& info(const Weight& weight) const;
  /// The weight in the mapping, in the type and shape of the file, but for the convolution, whose middle
  /// dimension of 1 is left out. Throws as info(), and as Checkpoint::tensor.
  WeightData data(const Weight& weight) const;

 private:
  /// The name under which a weight is stored. Throws Error(not_found).
  std::string stored_name(const Weight& weight) const;

  std::string directory_;
  ModelConfig config_;
  Checkpoint checkpoint_;
};

}  // namespace tandem
