#include "graph/run/token_history.hpp"

#include <algorithm>

namespace tandem {

void TokenHistory::reserve(SequenceId sequence, std::int64_t tokens) {
  Entry& entry = entries_[sequence.index];
  if (entry.generation != sequence.generation) entry = {sequence.generation, {}};
  const auto wanted = static_cast<std::size_t>(tokens);
  // Doubles at least, as steps mostly add one token.
  if (entry.tokens.capacity() < wanted) entry.tokens.reserve(std::max(wanted, 2 * entry.tokens.capacity()));
}

void TokenHistory::note(SequenceId sequence, std::int64_t position, std::span<const TokenId> tokens) {
  Entry& entry = entries_[sequence.index];
  if (entry.generation != sequence.generation) entry = {sequence.generation, {}};
  const auto known = static_cast<std::int64_t>(entry.tokens.size());
  if (position > known) return;  // a gap stays one
  entry.tokens.resize(static_cast<std::size_t>(position));
  entry.tokens.insert(entry.tokens.end(), tokens.begin(), tokens.end());
}

void TokenHistory::fork(SequenceId from, SequenceId to) {
  const auto found = entries_.find(from.index);
  const bool known = found != entries_.end() && found->second.generation == from.generation;
  Entry copy{to.generation, known ? found->second.tokens : std::vector<TokenId>()};
  entries_[to.index] = std::move(copy);
}

std::optional<std::span<const TokenId>> TokenHistory::of(SequenceId sequence, std::int64_t count) const {
  if (count == 0) return std::span<const TokenId>();
  const auto found = entries_.find(sequence.index);
  if (found == entries_.end() || found->second.generation != sequence.generation) return {};
  if (count > static_cast<std::int64_t>(found->second.tokens.size())) return {};
  return std::span(found->second.tokens).first(static_cast<std::size_t>(count));
}

}  // namespace tandem
