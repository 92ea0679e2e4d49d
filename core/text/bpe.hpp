#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/random.hpp"
#include "core/text/token.hpp"

namespace tandem::text {

/// Byte-pair encoding: a word starts as one token a byte; then, again and again, the pair of neighbours that
/// is first in the list of merges (the leftmost of equals) becomes one token, until no pair of neighbours is
/// in the list.
///
/// Thread-safe once it is filled.
class Bpe {
 public:
  static constexpr TokenId kNone = -1;

  /// Scratch memory of `encode`, kept from word to word. One for each thread.
  class Workspace;

  Bpe() { byte_tokens_.fill(kNone); }

  void set_byte_token(std::uint8_t byte, TokenId id) { byte_tokens_[byte] = id; }

  /// `rank` is the place in the list, 0 first. Of two merges of the same pair the later call counts.
  void set_merge(TokenId left, TokenId right, std::uint32_t rank, TokenId merged) {
    merges_.insert_or_assign(key(left, right), Merge{rank, merged});
  }

  /// From now on a word that is a token as a whole becomes that token, whatever the merges say
  /// ("ignore_merges").
  void set_whole_word(std::string bytes, TokenId id) { whole_words_.insert_or_assign(std::move(bytes), id); }

  void reserve_merges(std::size_t count) { merges_.reserve(count); }

  /// Appends the tokens of `word`, in time n log n. Throws unsupported for a byte that no token stands for.
  /// REQUIRES: word has fewer than 2^32 - 1 bytes.
  void encode(std::string_view word, Workspace& workspace, std::vector<TokenId>& out) const;

 private:
  struct Merge {
    std::uint32_t rank;
    TokenId merged;
  };
  struct KeyHash {
    std::size_t operator()(std::uint64_t key) const { return static_cast<std::size_t>(mix64(key)); }
  };

  static std::uint64_t key(TokenId left, TokenId right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
  }

  void start(std::string_view word, Workspace& workspace) const;
  void consider(std::uint32_t left, Workspace& workspace) const;
  void merge_all(Workspace& workspace) const;

  std::array<TokenId, 256> byte_tokens_;
  std::unordered_map<std::uint64_t, Merge, KeyHash> merges_;
  std::unordered_map<std::string, TokenId> whole_words_;
};

class Bpe::Workspace {
 private:
  friend class Bpe;

  /// A token of the word so far. The tokens are a doubly linked list in the order of the word; kNone is one
  /// that has become part of its left neighbour.
  struct Symbol {
    TokenId id;
    std::uint32_t previous, next;
  };

  std::vector<Symbol> symbols_;
  /// A heap, smallest first, of merges that were possible when they were put in: rank in the upper half,
  /// index of the left symbol in the lower, so that order is by rank, then from left to right.
  std::vector<std::uint64_t> candidates_;
  std::string word_;
};

}  // namespace tandem::text
