#pragma once

#include <functional>

#include "core/io/model_config.hpp"
#include "graph/model/graph.hpp"
#include "state/geometry.hpp"

/// The Qwen3.5 text model as a graph. Mathematics: graph/README.md, with the names of Hugging Face's
/// implementation.
namespace tandem {

/// Decides what a matrix is in. Asked once for each that has a choice (Weight::group), for the embedding and
/// for the small ones of a Gated DeltaNet mixer; what it says of those two must be f32 or bf16.
using GearOf = std::function<Gear(const Weight&)>;
/// As published: everything in bf16.
Gear published_gear(const Weight& weight);
/// What was asked for, else what `otherwise` says.
GearOf gears_of(const Gears& asked, GearOf otherwise);

/// The whole model. A head tied to the embedding is the embedding's weight while both have one gear; else it
/// is a weight of its own, lm_head.weight, with the embedding's values. Throws Error(mismatch) naming a
/// weight that cannot be in 4 bits. Inputs: "ids" and "positions" (index, one a token), "output_rows" (index,
/// one an output: the rows whose logits are wanted). Values that others look for: "hidden" in kNoLayer (the
/// embedding) and in each layer (the residual stream after it), "final" (after the last norm) and "logits",
/// of the wanted rows.
Graph build_model_graph(const ModelConfig& config, const GearOf& gear_of = published_gear);

/// One Gated DeltaNet mixer alone, as layer `layer` of the configuration, with no norm before it and no
/// residual: input "x" [hidden], output "out", and the intermediate values under the names of GdnTrace
/// (backends/cpu/scalar/gdn_step.hpp).
Graph build_gdn_graph(const ModelConfig& config, int layer = 0, const GearOf& gear_of = published_gear);

/// What the model remembers of a sequence. `real` is the backends' activation type.
StateGeometry state_geometry(const ModelConfig& config, DType real);

}  // namespace tandem
