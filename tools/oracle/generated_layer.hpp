#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/threads.hpp"
#include "graph/model/model.hpp"

namespace tandem::tools {

/// A Gated DeltaNet layer whose weights are generated, so that hundreds of megabytes need not be stored. What
/// a layer oracle's oracle.json says (tests/data/oracle/README.md describes the format and the generator).
struct GeneratedLayer {
  std::filesystem::path folder;
  std::int64_t hidden = 0, key_heads = 0, key_dim = 0, value_heads = 0, value_dim = 0, conv_kernel = 0;
  std::int64_t tokens = 0, long_tokens = 0;  ///< of the short and the long run
  std::uint64_t seed = 0;
  std::vector<std::int64_t> state_heads;  ///< whose state is stored whole

  std::int64_t keys() const { return key_heads * key_dim; }
  std::int64_t values() const { return value_heads * value_dim; }
  std::int64_t channels() const { return 2 * keys() + values(); }
};

/// Throws what read_json_file throws and Error(invalid_argument) for sizes that make no layer; Error(corrupt)
/// when the generator does not give the first values that the file lists.
GeneratedLayer read_generated_layer(const std::filesystem::path& folder);

/// Which layer of how many it is to be. Its weights, and so its results, are the same in every place.
struct LayerPlace {
  int index = 0;
  int layers = 1;
};

/// The layer as a model of one mixer (graph/model/qwen35.hpp: build_gdn_graph), its weights in f32.
std::shared_ptr<const Model> make_generated_model(const GeneratedLayer& layer, Threads& threads,
                                                  LayerPlace place = {});

/// Inputs x, [long_tokens, hidden]: heavy-tailed, as real activations are.
std::vector<float> generated_inputs(const GeneratedLayer& layer);

}  // namespace tandem::tools
