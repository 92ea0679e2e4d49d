#pragma once

#include "core/text/json_node.hpp"
#include "core/text/tokenizer_parts.hpp"

namespace tandem::text {

/// Reads the keys "model" and "added_tokens" into parts.bpe, parts.vocabulary and the tables of added tokens.
/// REQUIRES: parts.nfc has been read.
void read_tokens(const JsonNode& model, const JsonNode& added, TokenizerParts& parts);

}  // namespace tandem::text
