#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/io/gguf.hpp"
#include "core/text/byte_level.hpp"
#include "core/text/json_node.hpp"
#include "core/text/spellings.hpp"
#include "core/text/tokenizer_parts.hpp"
#include "core/text/utf8.hpp"

namespace tandem::text {
namespace {

/// The format names a pattern where tokenizer.json has it.
struct NamedPattern {
  std::string_view name;
  std::string_view pattern;
};

constexpr NamedPattern kNamedPatterns[] = {
    {"qwen35",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

/// What the format says of a token.
enum TokenKind : std::int64_t { kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5 };

class GgufTokenizerReader {
 public:
  explicit GgufTokenizerReader(const GgufFile& file) : file_(file) { parts_.where = file.path().string(); }

  TokenizerParts read() {
    check_model();
    parts_.nfc = true;
    parts_.patterns.push_back(pattern());
    read_tokens();
    set_byte_tokens(spellings_, parts_.bpe);
    read_merges();
    return std::move(parts_);
  }

 private:
  static std::string full(std::string_view key) { return fmt::format("tokenizer.ggml.{}", key); }
  std::string where(std::string_view key) const {
    return fmt::format("{}: key '{}'", parts_.where, full(key));
  }

  void check_model() const {
    const auto model = file_.string(full("model"));
    if (!model)
      fail(ErrorCode::not_found, "{}: no tokenizer (key '{}' is missing)", parts_.where, full("model"));
    if (*model != "gpt2") {
      fail(ErrorCode::unsupported,
           "{}: tokenizer model {} is not supported; known is 'gpt2' (byte-level BPE)", where("model"),
           in_quotes(*model));
    }
    for (const char* key : {"add_bos_token", "add_eos_token", "add_space_prefix"}) {
      if (!file_.boolean(full(key)).value_or(false)) continue;
      fail(ErrorCode::unsupported, "{}: what is added to every text is not supported; known is false",
           where(key));
    }
  }

  SplitPattern pattern() const {
    const std::string_view name = file_.string(full("pre")).value_or("");
    const auto* known = std::ranges::find(kNamedPatterns, name, &NamedPattern::name);
    if (known == std::end(kNamedPatterns)) {
      fail(ErrorCode::unsupported, "{}: pre-tokenizer {} is not supported; known are 'qwen35' and 'qwen2'",
           where("pre"), in_quotes(name));
    }
    return {known->pattern, where("pre")};
  }

  template <class T>
  std::vector<T> required(std::string_view key, std::optional<std::vector<T>> list) const {
    if (!list)
      fail(ErrorCode::corrupt, "{}: expected an array, found nothing; convert the file again", where(key));
    return *std::move(list);
  }

  void read_tokens() {
    const auto tokens = required("tokens", file_.strings(full("tokens")));
    const auto kinds = required("token_type", file_.integers(full("token_type")));
    if (tokens.size() != kinds.size() || tokens.size() > static_cast<std::size_t>(Vocabulary::kMaxTokens)) {
      fail(ErrorCode::corrupt,
           "{}: expected a type for each of the {} tokens, {} at most, found {}; convert the file again",
           where("token_type"), tokens.size(), Vocabulary::kMaxTokens, kinds.size());
    }
    std::vector<AddedToken> added;
    spellings_.reserve(tokens.size());
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (kinds[id] == kUnused) continue;
      read_token(static_cast<TokenId>(id), tokens[id], kinds[id], added);
    }
    parts_.raw_added = AddedTokens(std::move(added));
  }

  void read_token(TokenId id, std::string_view token, std::int64_t kind, std::vector<AddedToken>& added) {
    if (kind != kNormal && kind != kControl && kind != kUserDefined) {
      fail(ErrorCode::unsupported,
           "{}: token {} of type {} is not supported; known are normal (1), control (3), user-defined (4) "
           "and unused (5)",
           where("token_type"), id, kind);
    }
    if (token.empty() || first_ill_formed(token) || !spellings_.emplace(token, id).second) {
      fail(ErrorCode::corrupt,
           "{}: expected token {} to be UTF-8 that no other token is, found {}; convert the file again",
           where("tokens"), id, in_quotes(token));
    }
    if (kind == kNormal) {
      // A token outside the alphabet cannot be made by merges; it stands for itself.
      parts_.vocabulary.add(id, byte_level_bytes(token).value_or(std::string(token)));
      return;
    }
    parts_.vocabulary.add(id, token);
    if (kind == kControl) parts_.vocabulary.mark_special(id);
    parts_.added_ids.emplace(token, id);
    added.push_back({.id = id,
                     .content = std::string(token),
                     .special = kind == kControl,
                     .lstrip = false,
                     .rstrip = false});
  }

  void read_merges() {
    const auto merges = required("merges", file_.strings(full("merges")));
    parts_.bpe.reserve_merges(merges.size());
    MergeList ranked(spellings_, where("merges"), parts_.bpe);
    for (const std::string_view merge : merges) {
      const auto [left, right] = split_merge(merge);
      if (left.empty() || right.empty()) {
        fail(ErrorCode::corrupt,
             "{}: expected merge {} to be two tokens \"a b\", found {}; convert the file again",
             where("merges"), ranked.rank(), in_quotes(merge));
      }
      ranked.add(left, right);
    }
  }

  const GgufFile& file_;
  TokenizerParts parts_;
  Spellings spellings_;  ///< views into the file
};

}  // namespace

TokenizerParts read_tokenizer_gguf(const GgufFile& file) { return GgufTokenizerReader(file).read(); }

}  // namespace tandem::text
