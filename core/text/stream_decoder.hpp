#pragma once

#include <string>
#include <utility>

#include "core/text/token.hpp"
#include "core/text/tokenizer.hpp"

namespace tandem {

/// Decodes tokens as they come, for showing text while it is made. A token may end in the middle of a
/// character: then that beginning is held back until the rest of the character is there, or until it is
/// certain that it will not come.
///
/// The pieces of all pushes and the final flush, in a row, are Tokenizer::decode of all ids, and each piece
/// is well-formed UTF-8. Not thread-safe. Keeps its own share of the tokenizer.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special = false)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

  /// The characters that this token completes: often none. Throws invalid_argument for an id that is not in
  /// the vocabulary, and has changed nothing then.
  std::string push(TokenId id);

  /// What was held back: nothing, or U+FFFD for a character that was never finished. The decoder is as new
  /// afterwards.
  std::string flush();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::string held_;  // at most 3 bytes: the beginning of a character
};

}  // namespace tandem
