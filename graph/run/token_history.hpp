#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/text/token.hpp"
#include "state/sequence.hpp"

namespace tandem {

/// The tokens that sequences have taken, so that one can be computed again. A rollback or reset shows in the
/// next step, which begins earlier: what it replaces is forgotten. Not thread-safe.
class TokenHistory {
 public:
  /// Makes room, so that note() up to so many tokens of the sequence does not throw.
  void reserve(SequenceId sequence, std::int64_t tokens);
  /// A sequence of `position` tokens has taken these. What came before is unknown if it was not noted.
  void note(SequenceId sequence, std::int64_t position, std::span<const TokenId> tokens);
  /// `to` is a fork of `from`.
  void fork(SequenceId from, SequenceId to);
  /// The first `count` tokens of a sequence; none when not all of them were noted. Valid until the next note.
  std::optional<std::span<const TokenId>> of(SequenceId sequence, std::int64_t count) const;

 private:
  struct Entry {
    std::int64_t generation = 0;
    std::vector<TokenId> tokens;
  };
  std::map<std::int64_t, Entry> entries_;  ///< by index of SequenceId, so that closed ones make room
};

}  // namespace tandem
