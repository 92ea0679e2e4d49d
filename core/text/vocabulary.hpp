#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/token.hpp"

namespace tandem::text {

/// The bytes of each token, by id. Ids may have gaps.
class Vocabulary {
 public:
  /// No real vocabulary comes near it; an id beyond it is damage, and would cost memory for each id below.
  static constexpr TokenId kMaxTokens = 1 << 22;

  /// REQUIRES: 0 <= id < kMaxTokens and !contains(id).
  void add(TokenId id, std::string_view bytes);

  /// Replaces the bytes of a token. REQUIRES: contains(id).
  void replace(TokenId id, std::string_view bytes);

  void mark_special(TokenId id) { slots_[static_cast<std::size_t>(id)].special = true; }

  /// One more than the largest id.
  TokenId size() const { return static_cast<TokenId>(slots_.size()); }

  bool contains(TokenId id) const {
    return id >= 0 && id < size() && slots_[static_cast<std::size_t>(id)].present;
  }

  /// REQUIRES: contains(id). The view lives until the next add or replace.
  std::string_view bytes(TokenId id) const;
  bool is_special(TokenId id) const { return slots_[static_cast<std::size_t>(id)].special; }

 private:
  struct Slot {
    std::size_t offset = 0;  // into pool_
    std::uint32_t size = 0;
    bool present = false;
    bool special = false;
  };

  std::string pool_;
  std::vector<Slot> slots_;
};

}  // namespace tandem::text
