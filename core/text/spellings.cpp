#include "core/text/spellings.hpp"

#include "core/error.hpp"
#include "core/text/byte_level.hpp"
#include "core/text/json_node.hpp"
#include "core/text/utf8.hpp"

namespace tandem::text {

void set_byte_tokens(const Spellings& spellings, Bpe& bpe) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelling;
    append_utf8(spelling, byte_level_character(static_cast<std::uint8_t>(byte)));
    if (const auto found = spellings.find(spelling); found != spellings.end()) {
      bpe.set_byte_token(static_cast<std::uint8_t>(byte), found->second);
    }
  }
}

std::pair<std::string_view, std::string_view> split_merge(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) return {};
  return {text.substr(0, space), text.substr(space + 1)};
}

TokenId MergeList::id_of(std::string_view token) const {
  const auto found = spellings_.find(token);
  if (found != spellings_.end()) return found->second;
  fail(ErrorCode::corrupt,
       "{}: merge {} expected {} in the vocabulary, found no such token; fetch the file again", where_, rank_,
       in_quotes(token));
}

void MergeList::add(std::string_view left, std::string_view right) {
  merged_.assign(left).append(right);
  const TokenId left_id = id_of(left);
  const TokenId right_id = id_of(right);
  bpe_.set_merge(left_id, right_id, rank_, id_of(merged_));
  ++rank_;
}

}  // namespace tandem::text
