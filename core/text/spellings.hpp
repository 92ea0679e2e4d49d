#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/text/bpe.hpp"
#include "core/text/token.hpp"

/// What every file of a byte-level BPE vocabulary says, in whatever format.
namespace tandem::text {

/// The model's tokens as the file spells them, in the byte-level alphabet. Views into the file.
using Spellings = std::unordered_map<std::string_view, TokenId>;

/// Tells `bpe` the token of each byte that has one.
void set_byte_tokens(const Spellings& spellings, Bpe& bpe);

/// The halves of a merge written as "a b"; both empty for anything else.
std::pair<std::string_view, std::string_view> split_merge(std::string_view text);

/// Takes the merges of a file, the first rank first. Borrows all that it is made with.
class MergeList {
 public:
  /// `where` begins the messages.
  MergeList(const Spellings& spellings, std::string where, Bpe& bpe)
      : spellings_(spellings), where_(std::move(where)), bpe_(bpe) {}

  /// Throws corrupt when one of the halves or the whole is no token. REQUIRES: neither half is empty.
  void add(std::string_view left, std::string_view right);
  std::uint32_t rank() const { return rank_; }

 private:
  TokenId id_of(std::string_view token) const;

  const Spellings& spellings_;
  std::string where_;
  Bpe& bpe_;
  std::uint32_t rank_ = 0;
  std::string merged_;
};

}  // namespace tandem::text
