#include "core/text/stream_decoder.hpp"

#include "core/text/utf8.hpp"

namespace tandem {

std::string StreamDecoder::push(TokenId id) {
  if (tokenizer_.is_special(id) && skip_special_) return {};
  held_ += tokenizer_.token_bytes(id);
  std::string piece;
  held_.erase(0, text::append_whole_characters(piece, held_));
  return piece;
}

std::string StreamDecoder::flush() {
  std::string piece;
  text::append_lossy(piece, held_);
  held_.clear();
  return piece;
}

}  // namespace tandem
