#pragma once

#include "core/io/model_config.hpp"
#include "graph/graph.hpp"
#include "state/geometry.hpp"

/// The Qwen3.5 text model as a graph. Mathematics: graph/README.md, with the names of Hugging Face's
/// implementation.
namespace tandem {

/// The whole model. Inputs: "ids" and "positions" (index, one a token), "output_rows" (index, one an output:
/// the rows whose logits are wanted). Values that others look for: "hidden" in kNoLayer (the embedding) and
/// in each layer (the residual stream after it), "final" (after the last norm) and "logits", of the wanted
/// rows.
Graph build_model_graph(const ModelConfig& config);

/// One Gated DeltaNet mixer alone, as layer `layer` of the configuration, with no norm before it and no
/// residual: input "x" [hidden], output "out", and the intermediate values under the names of GdnTrace
/// (backends/cpu/scalar/gdn_step.hpp).
Graph build_gdn_graph(const ModelConfig& config, int layer = 0);

/// What the model remembers of a sequence. `real` is the backends' activation type.
StateGeometry state_geometry(const ModelConfig& config, DType real);

}  // namespace tandem
