#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/random_tensor.hpp"
#include "graph/model/model.hpp"
#include "graph/model/qwen35.hpp"

namespace tandem {

/// A model of random weights with the sizes of a published one, for measuring and testing at real sizes
/// without a download. The same spec is the same model everywhere, bit by bit, whether it is made in memory
/// or was written to a directory; a weight depends on its name and the seed alone, so that a model with fewer
/// layers is the beginning of the whole one.
struct SyntheticSpec {
  std::string geometry;     ///< core/io/geometries.hpp
  std::int64_t layers = 0;  ///< 0: as published
  std::int64_t vocab = 0;   ///< 0: as published
  DType dtype = DType::bf16;
  std::uint64_t seed = 0;
};

/// The largest numbers that a spec takes: what a config.json may say, too.
inline constexpr std::int64_t kMaxSyntheticLayers = 1 << 10;
inline constexpr std::int64_t kMaxSyntheticVocab = 1 << 22;

/// "27B", or with any of layers, vocab, dtype and seed, each once: "27B:layers=4,dtype=f32,seed=7,vocab=512".
/// Throws Error(invalid_argument), saying what is known, for anything else.
SyntheticSpec parse_synthetic_spec(std::string_view text);

/// The shortest text that gives this spec.
std::string to_text(const SyntheticSpec& spec);

/// The published configuration with the spec's changes. Stop ids outside the vocabulary are left out. Throws
/// Error(invalid_argument) for an unknown geometry.
ModelConfig synthetic_config(const SyntheticSpec& spec);

/// A weight of the model's graph as a file of it would have it: of the spec's element type, but for A_log and
/// the gated norm, which published files keep in f32. Sized so that hidden states and logits are of normal
/// size.
RandomTensor synthetic_weight(const SyntheticSpec& spec, const ModelConfig& config, const Weight& weight);

/// What the spec's matrices are in where nothing else is asked for. Throws Error(invalid_argument) for a
/// layer that the model has not.
GearOf synthetic_gears(const SyntheticSpec& spec, const Gears& asked);

/// The values of a weight of a model in gears: made in the gear's type at once, not converted from the
/// spec's. In 4 bits they are random levels and scales of the same size, not the quantised values of the
/// other types. A tied head of its own has the embedding's random numbers.
WeightData synthetic_data(const SyntheticSpec& spec, const ModelConfig& config, const Weight& weight);

/// The model in the gears asked for; matrices take no memory before a backend makes them. Throws as
/// synthetic_config and synthetic_gears.
std::shared_ptr<const Model> make_synthetic_model(const SyntheticSpec& spec, const Gears& gears = {});

}  // namespace tandem
