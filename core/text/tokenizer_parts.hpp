#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/added_tokens.hpp"
#include "core/text/bpe.hpp"
#include "core/text/split_pattern.hpp"
#include "core/text/token.hpp"
#include "core/text/vocabulary.hpp"

namespace tandem {
class GgufFile;
}

namespace tandem::text {

/// What a Tokenizer is made of, in the order in which a text meets it.
struct TokenizerParts {
  std::string where;      ///< the file, for messages
  AddedTokens raw_added;  ///< found in the text as it stands
  bool nfc = false;
  AddedTokens normalized_added;        ///< found in the normalised text between those
  std::vector<SplitPattern> patterns;  ///< each cuts the words of the one before
  Bpe bpe;

  Vocabulary vocabulary;  ///< of the model and the added tokens together
  std::map<std::string, TokenId, std::less<>> added_ids;
};

/// Reads the text of a tokenizer.json; `where` names it in messages. Throws corrupt or unsupported (see
/// Tokenizer::load).
TokenizerParts read_tokenizer_json(std::string_view json, std::string_view where);

/// Reads the keys tokenizer.ggml.* of a GGUF file. Throws corrupt or unsupported (see Tokenizer::from_gguf).
TokenizerParts read_tokenizer_gguf(const GgufFile& file);

}  // namespace tandem::text
