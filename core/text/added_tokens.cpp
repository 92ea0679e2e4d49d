#include "core/text/added_tokens.hpp"

#include <algorithm>
#include <utility>

#include "core/text/unicode.hpp"
#include "core/text/utf8.hpp"

namespace tandem::text {
namespace {

/// Where the white space that ends at `end` begins, not before `floor`.
std::size_t skip_space_backwards(std::string_view text, std::size_t end, std::size_t floor) {
  while (end > floor) {
    std::size_t begin = end - 1;
    while (begin > floor && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    if (!is_white_space(utf8_step(text.substr(begin)).code_point)) break;
    end = begin;
  }
  return end;
}

std::size_t skip_space_forwards(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    const Utf8Step step = utf8_step(text.substr(begin));
    if (!is_white_space(step.code_point)) break;
    begin += step.size;
  }
  return begin;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.content.size() > b.content.size();
  });
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    by_first_byte_[static_cast<unsigned char>(tokens_[i].content[0])].push_back(i);
  }
}

const AddedToken* AddedTokens::match_at(std::string_view text, std::size_t at) const {
  for (std::size_t i : by_first_byte_[static_cast<unsigned char>(text[at])]) {
    if (text.substr(at).starts_with(tokens_[i].content)) return &tokens_[i];
  }
  return nullptr;
}

void AddedTokens::split(std::string_view text, bool with_special,
                        const std::function<void(std::string_view)>& on_text,
                        const std::function<void(TokenId)>& on_token) const {
  std::size_t done = 0;  // everything before it has been handed out
  const auto hand_out_until = [&](std::size_t end) {
    if (done < end) on_text(text.substr(done, end - done));
  };
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* token = match_at(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    // The search goes on after the content itself, also where the token takes more of the text or is passed
    // over.
    const std::size_t end = at + token->content.size();
    if (with_special || !token->special) {
      hand_out_until(token->lstrip ? skip_space_backwards(text, at, done) : at);
      on_token(token->id);
      done = token->rstrip ? skip_space_forwards(text, end) : end;
    }
    at = end;
  }
  hand_out_until(text.size());
}

}  // namespace tandem::text
