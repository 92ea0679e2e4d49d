#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/gguf_weights.hpp"
#include "graph/model.hpp"
#include "graph/weight_sizes.hpp"

namespace tandem {

/// Which matrices keep their 4 bits (those of type Q4_0); without it none does.
using KeepQ4 = std::function<bool(const Weight&)>;

/// A GGUF file of a dense Qwen3.5 model (architecture qwen35), opened: its header, configuration and graph.
/// Immutable, safe to use from several threads.
class GgufModelFile {
 public:
  /// Throws what GgufFile and gguf_model_config throw.
  explicit GgufModelFile(const std::filesystem::path& path);

  const GgufFile& file() const { return weights_.file(); }
  const ModelConfig& config() const { return config_; }
  const Graph& graph() const { return graph_; }
  const GgufWeights& weights() const { return weights_; }

  /// The model. Matrices of type F32 and BF16 stay in the mapping where nothing has to be moved in them; all
  /// else is made now, on all processors. Throws Error(not_found) for a missing tensor, Error(mismatch) for
  /// a wrong shape, and what GgufWeights::load throws.
  std::shared_ptr<const Model> open(const WeightProgress& progress = {}, const KeepQ4& keep_q4 = {}) const;

  /// From the header alone. Throws as open, but for what only values show.
  WeightSizes sizes(const KeepQ4& keep_q4 = {}) const;

  /// How many tensors of a type became what.
  struct Use {
    std::string_view type;  ///< GGML's name
    GgufForm form;
    std::int64_t tensors = 0;
    std::int64_t bytes = 0;  ///< in the file
  };
  /// Sorted by type and form. Throws as sizes.
  std::vector<Use> uses(const KeepQ4& keep_q4 = {}) const;

  /// A line each for what is in the file and not used: layers for multi-token prediction, other tensors.
  std::vector<std::string> notices() const;

 private:
  explicit GgufModelFile(std::shared_ptr<const GgufFile> file);
  GgufWeights::Stored checked(const Weight& weight, const KeepQ4& keep_q4) const;

  ModelConfig config_;
  Graph graph_;
  GgufWeights weights_;
};

/// "2 tensors of type Q6_K, 1234 bytes: dequantised to f32".
std::string to_text(const GgufModelFile::Use& use);

/// Opens the file and the model in it. Throws as both.
std::shared_ptr<const Model> open_gguf_model(const std::filesystem::path& path,
                                             const WeightProgress& progress = {}, const KeepQ4& keep_q4 = {});

}  // namespace tandem
