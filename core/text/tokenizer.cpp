#include "core/text/tokenizer.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "core/error.hpp"
#include "core/io/lfs_pointer.hpp"
#include "core/text/tokenizer_parts.hpp"
#include "core/text/unicode.hpp"
#include "core/text/utf8.hpp"

namespace tandem {
namespace {

/// Normalised, a text can grow threefold; the words' 32-bit indices must hold that.
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

/// A word is merged as a whole, which takes some 40 times its size in memory, and seconds at this size. Text
/// has no such words: the longest are runs of one character.
constexpr std::size_t kMaxWordBytes = std::size_t{1} << 22;

/// Ten times the largest known. What is larger is another file under this name.
constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{256} << 20;

std::string read_file(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status)) {
    fail(ErrorCode::not_found, "{}: expected a tokenizer.json, found no such file; check the path",
         path.string());
  }
  if (!std::filesystem::is_regular_file(status)) {
    fail(ErrorCode::io,
         "{}: expected a tokenizer.json, found something that is not a file; name the file itself",
         path.string());
  }
  const std::uintmax_t size = std::filesystem::file_size(path, ignored);
  if (!ignored && size > kMaxFileBytes) {
    fail(ErrorCode::corrupt, "{}: expected a tokenizer.json of at most {} bytes, found {}; use another file",
         path.string(), kMaxFileBytes, size);
  }
  std::ifstream stream(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream) {
    fail(ErrorCode::io, "{}: cannot be read: {}; check its permissions", path.string(), std::strerror(errno));
  }
  refuse_lfs_pointer(content, path.string());
  return content;
}

/// One call of encode.
class Encoder {
 public:
  Encoder(const text::TokenizerParts& parts, bool parse_special)
      : parts_(parts), parse_special_(parse_special) {}

  std::vector<TokenId> encode(std::string_view text) {
    split(parts_.raw_added, text, [this](std::string_view stretch) { normalize(stretch); });
    return std::move(ids_);
  }

 private:
  template <class OnText>
  void split(const text::AddedTokens& added, std::string_view text, OnText on_text) {
    added.split(text, parse_special_, on_text, [this](TokenId id) { ids_.push_back(id); });
  }

  void normalize(std::string_view stretch) {
    const std::string normalized = parts_.nfc ? text::nfc(stretch) : std::string(stretch);
    split(parts_.normalized_added, normalized, [this](std::string_view part) { merge_words(part); });
  }

  void merge_words(std::string_view stretch) {
    words_.assign(1, stretch);
    for (const text::SplitPattern& pattern : parts_.patterns) {
      finer_words_.clear();
      pattern.split(words_, finer_words_);
      words_.swap(finer_words_);
    }
    for (std::string_view word : words_) merge_word(word);
  }

  void merge_word(std::string_view word) {
    if (word.size() > kMaxWordBytes) {
      fail(
          ErrorCode::invalid_argument,
          "text to tokenize: expected words of at most {} bytes, found one of {} that the split pattern does "
          "not cut; shorten that run of like characters",
          kMaxWordBytes, word.size());
    }
    parts_.bpe.encode(word, workspace_, ids_);
  }

  const text::TokenizerParts& parts_;
  bool parse_special_;
  std::vector<TokenId> ids_;
  std::vector<std::string_view> words_, finer_words_;
  text::Bpe::Workspace workspace_;
};

}  // namespace

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  return from_json(read_file(path), path.string());
}

Tokenizer Tokenizer::from_json(std::string_view json, std::string_view where) {
  return Tokenizer(std::make_shared<const text::TokenizerParts>(text::read_tokenizer_json(json, where)));
}

Tokenizer Tokenizer::from_gguf(const GgufFile& file) {
  return Tokenizer(std::make_shared<const text::TokenizerParts>(text::read_tokenizer_gguf(file)));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool parse_special) const {
  if (text.size() >= kMaxTextBytes) {
    fail(ErrorCode::invalid_argument,
         "text to tokenize: expected less than {} bytes, found {}; cut it into parts", kMaxTextBytes,
         text.size());
  }
  if (const auto offset = text::first_ill_formed(text)) {
    fail(ErrorCode::invalid_argument,
         "text to tokenize: expected UTF-8, found an ill-formed sequence at byte {} (0x{:02X}); convert the "
         "text",
         *offset, static_cast<unsigned char>(text[*offset]));
  }
  return Encoder(*parts_, parse_special).encode(text);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes;
  for (TokenId id : ids) {
    check_id(id);
    if (!skip_special || !parts_->vocabulary.is_special(id)) bytes += parts_->vocabulary.bytes(id);
  }
  std::string text;
  text.reserve(bytes.size());
  text::append_lossy(text, bytes);
  return text;
}

TokenId Tokenizer::vocab_size() const { return parts_->vocabulary.size(); }

bool Tokenizer::contains(TokenId id) const { return parts_->vocabulary.contains(id); }

std::string_view Tokenizer::token_bytes(TokenId id) const {
  check_id(id);
  return parts_->vocabulary.bytes(id);
}

bool Tokenizer::is_special(TokenId id) const {
  check_id(id);
  return parts_->vocabulary.is_special(id);
}

std::optional<TokenId> Tokenizer::id_of(std::string_view content) const {
  const auto found = parts_->added_ids.find(content);
  if (found == parts_->added_ids.end()) return std::nullopt;
  return found->second;
}

void Tokenizer::check_id(TokenId id) const {
  if (contains(id)) return;
  fail(ErrorCode::invalid_argument,
       "token id {}: expected a token of {}, whose ids are below {}; check that text and tokenizer belong to "
       "one model",
       id, parts_->where, vocab_size());
}

}  // namespace tandem
