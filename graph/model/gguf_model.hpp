#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/model/gguf_weights.hpp"
#include "graph/model/model.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/model/weight_sizes.hpp"

namespace tandem {

/// How a GGUF file's projections are to be computed.
struct GgufGears {
  Gears asked;              ///< what it does not name is as stored: Q4_0 in q4, BF16 in bf16, all else in f32
  bool requantize = false;  ///< projections of other quantised types in q4, too, instead of in f32
};

/// A GGUF file of a dense Qwen3.5 model (architecture qwen35), opened: its header, configuration and graph.
/// Immutable, safe to use from several threads.
class GgufModelFile {
 public:
  /// Throws what GgufFile and gguf_model_config throw; Error(invalid_argument) for gears of a layer that the
  /// model has not; what build_model_graph throws; Error(not_found) for a missing tensor, Error(unsupported)
  /// for a type that cannot be read.
  explicit GgufModelFile(const std::filesystem::path& path, const GgufGears& gears = {});

  const GgufFile& file() const { return weights_.file(); }
  const ModelConfig& config() const { return config_; }
  const Graph& graph() const { return graph_; }
  const GgufWeights& weights() const { return weights_; }

  /// The model in its gears. Matrices of type F32 and BF16 stay in the mapping where nothing has to be moved
  /// in them; all else is made now, on all processors. Q4_0 becomes raw-q4 without loss. Throws
  /// Error(not_found) for a missing tensor, Error(mismatch) for a wrong shape, and what GgufWeights::load
  /// throws.
  std::shared_ptr<const Model> open(const WeightProgress& progress = {}) const;

  /// From the header alone. Throws as open, but for what only values show.
  WeightSizes sizes() const;

  /// How many tensors of a type became what.
  struct Use {
    std::string_view type;  ///< GGML's name
    GgufForm form;
    std::int64_t tensors = 0;
    std::int64_t bytes = 0;  ///< in the file
  };
  /// Sorted by type and form. Throws as sizes.
  std::vector<Use> uses() const;

  /// A line each for what is in the file and not used: layers for multi-token prediction, other tensors.
  std::vector<std::string> notices() const;

 private:
  GgufModelFile(std::shared_ptr<const GgufFile> file, const GgufGears& gears);
  std::string stored_name(const Weight& weight) const;
  GgufWeights::Stored checked(const Weight& weight) const;
  GearOf gear_of(const GgufGears& gears) const;

  ModelConfig config_;
  GgufWeights weights_;
  Graph graph_;
};

/// "2 tensors of type Q6_K, 1234 bytes: dequantised to f32".
std::string to_text(const GgufModelFile::Use& use);

}  // namespace tandem
