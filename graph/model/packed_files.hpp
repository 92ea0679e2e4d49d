#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/q4_quantizer.hpp"
#include "core/threads.hpp"
#include "graph/model/synthetic.hpp"

namespace tandem {

/// A model that is to be written in gears: what is asked of wherever it comes from. Another format of files
/// is added by making one of these from it.
struct PackSource {
  ModelConfig config;
  Graph graph;  ///< in the gears that it is to be written in
  /// The name of a weight's tensor in the new directory, without the suffix of 4 bits.
  std::function<std::string(const Weight&)> name;
  /// The values as they are stored, of any type. Of a model in files they are mapped, not copied.
  std::function<WeightData(const Weight&)> data;
  /// What a weight takes where it comes from.
  std::function<std::int64_t(const Weight&)> bytes;
  /// Writes config.json, and the tokenizer if there is one.
  std::function<void(const std::filesystem::path&)> write_config;
};

/// A Hugging Face directory. The source keeps it mapped. Throws as ModelFiles; Error(invalid_argument) when
/// it is in 4 bits already.
PackSource pack_source(const std::filesystem::path& directory, const Gears& gears);
/// Random weights, made as make_synthetic_model makes them.
PackSource pack_source(const SyntheticSpec& spec, const Gears& gears);

/// What was written of weights of one group and gear.
struct PackedGroup {
  std::string group;  ///< "gdn", "attention", "mlp", "head", or "others"
  std::string gear;   ///< of "others": "as stored"
  int tensors = 0;
  std::int64_t bytes_before = 0;
  std::int64_t bytes_after = 0;
  Q4Error error = {};  ///< zero when nothing was quantised
};

struct PackOptions {
  std::int64_t shard_bytes = std::int64_t{4} << 30;
  /// Told bytes written and in all, every few megabytes, and while a large matrix is quantised. May throw to
  /// end the writing.
  std::function<void(std::int64_t done, std::int64_t total)> progress;
};

/// Writes the model as a directory that Model::open takes as it is: matrices in 4 bits as they lie in memory
/// (core/io/quantization.hpp), others in their gear's type, the rest as it is stored. `gears` is what the
/// directory will say that it was written in. The directory appears whole or not at all. One converted tensor
/// is in memory at a time, beside what is mapped. Throws as NewDirectory, write_checkpoint and
/// WeightConverter; Error(io) before anything is written when there is no room.
std::vector<PackedGroup> write_packed_model(const PackSource& source, const Gears& gears,
                                            const std::filesystem::path& directory, Threads& threads,
                                            const PackOptions& options = {});

}  // namespace tandem
