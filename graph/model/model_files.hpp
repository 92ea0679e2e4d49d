#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/io/checkpoint.hpp"
#include "core/io/model_config.hpp"
#include "graph/model/gear.hpp"
#include "graph/model/graph.hpp"
#include "graph/model/weight_data.hpp"

namespace tandem {

/// A Hugging Face directory by the names of the graph: configuration and headers are read, data are not. It
/// may have weights in 4 bits, as `tandem quantize` writes them (core/io/quantization.hpp); the gears that it
/// was written in are then its own. A tied head that is asked for in the embedding's gear is the embedding
/// there, too. Immutable, safe to use from several threads.
class ModelFiles {
 public:
  /// Throws what load_model_config, load_quantization, Gears::parse and Checkpoint::open throw.
  explicit ModelFiles(const std::filesystem::path& directory);

  /// As the weights are: a head that is stored and differs from the embedding is the model's own, though
  /// config.json ties the two, as in transformers. An equal one is tied.
  const ModelConfig& config() const { return config_; }
  /// A line each for what was read differently from what the files say.
  const std::vector<std::string>& notices() const { return notices_; }
  /// Whether it was written in gears.
  bool quantized() const { return gears_.has_value(); }
  /// The model's graph in the gears asked for, else in its own, else in what weights are stored in. Throws
  /// Error(invalid_argument) for a layer that the model has not, and what build_model_graph throws.
  Graph graph(const Gears& asked) const;

  /// The name under which a weight is stored, without the suffix of one in 4 bits. Throws Error(not_found)
  /// with the names that were looked for, Error(mismatch) when it is there twice.
  std::string stored_name(const Weight& weight) const { return find(weight).name; }
  /// What a weight is stored in; f32 for any type but bf16 and 4 bits.
  Gear stored_gear(const Weight& weight) const;
  /// What the headers say of a weight. Throws as stored_name; Error(mismatch), naming the file, for
  /// another shape than the configuration asks for; Error(mismatch) for a matrix in 4 bits of
  /// another size or type than it should have, or that the configuration does not announce, and for one that
  /// is not in 4 bits though it is announced.
  const TensorInfo& info(const Weight& weight) const;
  /// The weight in the mapping, in the type and shape of the file, but for the convolution, whose middle
  /// dimension of 1 is left out. Throws as info(), and as Checkpoint::tensor.
  WeightData data(const Weight& weight) const;

 private:
  struct Found {
    std::string name;
    bool packed = false;  ///< in 4 bits: the file's name has a suffix

    std::string in_file() const;
  };
  Found find(const Weight& weight) const;
  std::vector<std::string> candidates(const Weight& weight) const;
  void require_announced(const Weight& weight, const Found& found) const;
  void require_shape(const Weight& weight, const std::string& name) const;
  std::string first_of(const std::string& weight) const;
  bool has_other_head() const;

  std::string directory_;
  std::vector<std::string> notices_;
  ModelConfig config_;
  Checkpoint checkpoint_;
  std::optional<Gears> gears_;
};

}  // namespace tandem
