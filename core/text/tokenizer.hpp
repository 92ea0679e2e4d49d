#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/token.hpp"

namespace tandem {

class GgufFile;

namespace text {
struct TokenizerParts;
}

/// Text to token ids and back, as a Hugging Face tokenizer.json says: byte-level BPE with added tokens, NFC
/// and a split pattern. Gives the ids that the Python package `tokenizers` gives for the same file; what that
/// file may ask for and this class does not do (another model, dropout, a prefix space, ...) is refused at
/// loading by its name.
///
/// The file's "truncation" and "padding" are not read: they say how a batch was once prepared, not what the
/// tokens are. Nothing is added in front or behind: a begin-of-text token is the caller's to add.
///
/// A Tokenizer never changes. Thread-safe; a copy shares the tables and costs nothing.
class Tokenizer {
 public:
  /// Reads a tokenizer.json. Throws not_found or io for a file that cannot be read, corrupt for one that
  /// is larger than 256 MiB, contradicts itself or is no tokenizer.json, unsupported for one that asks for
  /// something else than the above.
  static Tokenizer load(const std::filesystem::path& path);

  /// As load, from the file's text. `where` names it in messages.
  static Tokenizer from_json(std::string_view json, std::string_view where);

  /// The tokenizer in a GGUF file's metadata: that of the tokenizer.json which the file was made from, as far
  /// as the format keeps it. It names the split pattern (known are qwen35 and qwen2) instead of having it;
  /// NFC goes with both. Control tokens are special added tokens, user-defined ones are added tokens, unused
  /// ones are no tokens. Throws not_found when there is none, corrupt and unsupported as load.
  static Tokenizer from_gguf(const GgufFile& file);

  /// The tokens of `text`, which must be UTF-8. With `parse_special` false, added tokens that are marked
  /// special (markup such as <|im_end|>) are tokenized as the characters they are made of: the way to pass on
  /// text that is not trusted. Throws invalid_argument with the offset for text that is not UTF-8, is 1 GiB
  /// or longer, has a word of more than 4 MiB (what the split pattern does not cut), or exhausts the split
  /// pattern's limits, and unsupported if the vocabulary lacks a token for one of the bytes. Time n log n.
  std::vector<TokenId> encode(std::string_view text, bool parse_special = true) const;

  /// The bytes of all tokens in a row, as UTF-8: each ill-formed sequence becomes U+FFFD. A token may hold a
  /// part of a character, so decoding tokens one by one is not the same (StreamDecoder is for that). With
  /// `skip_special`, special tokens are left out. Throws invalid_argument for an id that contains() denies.
  std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  /// One more than the largest id. A model's embedding may have more rows than that.
  TokenId vocab_size() const;

  /// Whether a token has this id: there are none outside [0, vocab_size()), and there may be gaps inside.
  bool contains(TokenId id) const;

  /// What a token stands for: any bytes, not always whole characters. The view lives as long as a copy of
  /// this Tokenizer. Throws invalid_argument for an id that contains() denies; so does is_special.
  std::string_view token_bytes(TokenId id) const;

  /// Whether the file marks the token as special.
  bool is_special(TokenId id) const;

  /// The id of the added token with just this content, such as "<|im_end|>".
  std::optional<TokenId> id_of(std::string_view content) const;

 private:
  explicit Tokenizer(std::shared_ptr<const text::TokenizerParts> parts) : parts_(std::move(parts)) {}

  void check_id(TokenId id) const;

  std::shared_ptr<const text::TokenizerParts> parts_;
};

}  // namespace tandem
