#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/text/split_pattern.hpp"

#include <pcre2.h>

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/text/utf8.hpp"

namespace tandem::text {
namespace {

struct MatchDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
using MatchData = std::unique_ptr<pcre2_match_data, MatchDeleter>;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

/// White_Space, as the inside of a class. PCRE2's own \s has U+180E too, which Unicode took out in
/// version 6.3: with it, Mongolian text would get other tokens than the model was trained on.
constexpr std::string_view kSpaceClass = R"(\x09-\x0d\x85\p{Z})";

/// Rewrites a pattern written for Oniguruma into PCRE2's terms, in one pass over its characters.
class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  std::string translate() {
    for (at_ = 0; at_ < pattern_.size(); ++at_) {
      if (pattern_[at_] == '\\' && at_ + 1 < pattern_.size()) {
        translate_escape(pattern_[++at_]);
      } else {
        translate_plain(pattern_[at_]);
      }
    }
    return std::move(out_);
  }

 private:
  void translate_escape(char c) {
    if (c == 's') {
      out_ += in_class_ ? std::string(kSpaceClass) : "[" + std::string(kSpaceClass) + "]";
    } else if (c == 'S' && !in_class_) {
      out_ += "[^" + std::string(kSpaceClass) + "]";
    } else if (c == 'S') {
      refuse(R"(\S inside a class)");
    } else if (c == 'h' || c == 'H') {
      refuse(R"(\h)");
    } else {
      out_ += {'\\', c};
    }
  }

  void translate_plain(char c) {
    if (!in_class_ && c == '[') {
      in_class_ = true;
      out_ += c;
      if (next_is('^')) out_ += pattern_[++at_];
      if (next_is(']')) refuse("a class that starts with ']'");
      return;
    }
    if (!in_class_ && (c == '^' || c == '$')) refuse("the anchor ^ or $");
    if (in_class_ && c == '[') refuse("a class inside a class");
    if (in_class_ && c == '&' && next_is('&')) refuse("the class operator '&&'");
    if (c == ']') in_class_ = false;
    out_ += c;
  }

  bool next_is(char c) const { return at_ + 1 < pattern_.size() && pattern_[at_ + 1] == c; }

  [[noreturn]] void refuse(std::string_view what) const {
    fail(
        ErrorCode::unsupported,
        "{}: the pattern uses {} (near byte {}), which this tokenizer does not read; rewrite it without that",
        where_, what, at_);
  }

  std::string_view pattern_;
  const std::string& where_;
  std::string out_;
  std::size_t at_ = 0;
  bool in_class_ = false;
};

/// Finds one match after another in one text.
class Matcher {
 public:
  Matcher(const pcre2_code* code, const std::string& where)
      : code_(code), where_(where), data_(pcre2_match_data_create_from_pattern(code, nullptr)) {
    if (data_ == nullptr)
      fail(ErrorCode::out_of_memory, "{}: no memory to match the pattern; free some", where_);
  }

  struct Match {
    std::size_t begin, end;
  };

  std::optional<Match> find(std::string_view text, std::size_t from) {
    // The text was checked once, as a whole: PCRE2 would check the rest of it again at each match, in
    // quadratic time.
    const int status = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                   PCRE2_NO_UTF_CHECK, data_.get(), nullptr);
    if (status == PCRE2_ERROR_NOMATCH) return std::nullopt;
    if (status < 0) {
      fail(ErrorCode::invalid_argument,
           "{}: the pattern cannot be matched near byte {} of a stretch of text: {}; "
           "shorten the text or the run of like characters there",
           where_, from, pcre2_message(status));
    }
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data_.get());
    return Match{offsets[0], offsets[1]};
  }

 private:
  const pcre2_code* code_;
  const std::string& where_;
  MatchData data_;
};

void split_one(Matcher& matcher, std::string_view text, std::vector<std::string_view>& words) {
  const auto add = [&](std::size_t begin, std::size_t end) {
    if (begin < end) words.push_back(text.substr(begin, end - begin));
  };
  std::size_t done = 0;  // everything before it is in words
  std::size_t from = 0;
  while (from < text.size()) {
    const auto match = matcher.find(text, from);
    if (!match) break;
    add(done, match->begin);
    add(match->begin, match->end);
    done = match->end;
    // After an empty match, look again one character further on.
    from = done > match->begin || done == text.size() ? done : done + utf8_step(text.substr(done)).size;
  }
  add(done, text.size());
}

}  // namespace

void SplitPattern::CodeDeleter::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

SplitPattern::SplitPattern(std::string_view pattern, std::string where) : where_(std::move(where)) {
  const std::string translated = Translator(pattern, where_).translate();
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
  if (code_ == nullptr) {
    fail(ErrorCode::corrupt,
         "{}: expected a regular expression, found one that does not compile: {}; repair the file", where_,
         pcre2_message(error));
  }
  // Without machine code (a platform that has none) matching is interpreted: slower, the same result.
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
}

void SplitPattern::split(std::span<const std::string_view> texts,
                         std::vector<std::string_view>& words) const {
  Matcher matcher(code_.get(), where_);
  for (std::string_view text : texts) split_one(matcher, text, words);
}

}  // namespace tandem::text
