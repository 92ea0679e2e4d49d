#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/token.hpp"

namespace tandem::text {

/// A token that is found in the text as it stands, before any splitting or merging. The flags are
/// tokenizer.json's.
struct AddedToken {
  TokenId id;
  std::string content;
  bool special;  ///< markup, not text: left out of decoding when asked
  bool lstrip;   ///< white space before it belongs to it
  bool rstrip;   ///< white space after it belongs to it
};

/// Cuts text at a set of added tokens: at each place the longest, the leftmost place first.
///
/// Thread-safe after construction.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// REQUIRES: no content is empty.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Calls `on_text` for each stretch of text (never empty) and `on_token` for each added token, in order.
  /// With `with_special` false the special ones are text like any other.
  void split(std::string_view text, bool with_special, const std::function<void(std::string_view)>& on_text,
             const std::function<void(TokenId)>& on_token) const;

 private:
  const AddedToken* match_at(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;  // longest first
  std::array<std::vector<std::size_t>, 256> by_first_byte_;
};

}  // namespace tandem::text
