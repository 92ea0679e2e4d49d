#include "core/text/bpe.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "core/error.hpp"

namespace tandem::text {
namespace {

constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();

}  // namespace

void Bpe::encode(std::string_view word, Workspace& workspace, std::vector<TokenId>& out) const {
  if (word.empty()) return;
  if (!whole_words_.empty()) {
    workspace.word_ = word;
    if (const auto found = whole_words_.find(workspace.word_); found != whole_words_.end()) {
      out.push_back(found->second);
      return;
    }
  }
  start(word, workspace);
  merge_all(workspace);
  for (std::uint32_t i = 0; i != kEnd; i = workspace.symbols_[i].next)
    out.push_back(workspace.symbols_[i].id);
}

void Bpe::start(std::string_view word, Workspace& workspace) const {
  auto& symbols = workspace.symbols_;
  symbols.clear();
  workspace.candidates_.clear();
  const auto count = static_cast<std::uint32_t>(word.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto byte = static_cast<std::uint8_t>(word[i]);
    const TokenId id = byte_tokens_[byte];
    if (id == kNone) {
      fail(ErrorCode::unsupported,
           "text to tokenize: it holds byte 0x{:02X}, for which the vocabulary has no token; use a "
           "tokenizer.json whose vocabulary has all 256 byte tokens",
           byte);
    }
    symbols.push_back({id, i == 0 ? kEnd : i - 1, i + 1 == count ? kEnd : i + 1});
  }
  for (std::uint32_t i = 0; i < count; ++i) consider(i, workspace);
}

/// Puts the merge of a symbol and its right neighbour on the heap, if there is one.
void Bpe::consider(std::uint32_t left, Workspace& workspace) const {
  const auto& symbols = workspace.symbols_;
  const std::uint32_t right = symbols[left].next;
  if (right == kEnd) return;
  const auto found = merges_.find(key(symbols[left].id, symbols[right].id));
  if (found == merges_.end()) return;
  workspace.candidates_.push_back((std::uint64_t{found->second.rank} << 32) | left);
  std::push_heap(workspace.candidates_.begin(), workspace.candidates_.end(), std::greater<>());
}

void Bpe::merge_all(Workspace& workspace) const {
  auto& symbols = workspace.symbols_;
  auto& candidates = workspace.candidates_;
  while (!candidates.empty()) {
    std::pop_heap(candidates.begin(), candidates.end(), std::greater<>());
    const std::uint64_t candidate = candidates.back();
    candidates.pop_back();
    const auto left = static_cast<std::uint32_t>(candidate);
    const std::uint32_t right = symbols[left].next;
    if (symbols[left].id == kNone || right == kEnd) continue;
    // The neighbours may have changed since: then this merge is gone, and theirs has a candidate of its own.
    const auto found = merges_.find(key(symbols[left].id, symbols[right].id));
    if (found == merges_.end() || found->second.rank != candidate >> 32) continue;

    const std::uint32_t after = symbols[right].next;
    symbols[left].id = found->second.merged;
    symbols[left].next = after;
    symbols[right].id = kNone;
    if (after != kEnd) symbols[after].previous = left;
    consider(left, workspace);
    if (symbols[left].previous != kEnd) consider(symbols[left].previous, workspace);
  }
}

}  // namespace tandem::text
