#pragma once

#include <filesystem>

#include "core/context.hpp"
#include "core/text/tokenizer.hpp"
#include "graph/model/model.hpp"
#include "graph/session/session.hpp"
#include "tools/oracle/report.hpp"

namespace tandem::tools {

/// Whether the folder holds a layer's values; else a model's.
bool is_layer_oracle(const std::filesystem::path& folder);

/// Compares one generated Gated DeltaNet layer, run on the backend called `place`, with a layer oracle.
void check_layer_oracle(const std::filesystem::path& folder, const Context& context, const std::string& place,
                        OracleReport& report);

/// Compares a model with a model oracle: tokenizer, perplexity, logits and hidden states at some positions,
/// final states, greedy continuations.
void check_model_oracle(const std::filesystem::path& folder, Tokenizer tokenizer,
                        std::shared_ptr<const Model> model, const Context& context, const std::string& place,
                        OracleReport& report);

}  // namespace tandem::tools
