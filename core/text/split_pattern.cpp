#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/text/split_pattern.hpp"

#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <variant>

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

/// A class of PCRE2 for letters, each written as a number: none has another meaning then.
std::string class_of(const std::vector<bool>& letters) {
  std::string out = "[";
  for (std::size_t letter = 0; letter < letters.size(); ++letter) {
    if (letters[letter]) out += fmt::format("\\x{:02x}", letter);
  }
  return out + "]";
}

/// The pattern over the letters of `alphabet`.
std::string spell_pattern(std::span<const PatternPart> parts, const Alphabet& alphabet,
                          const std::string& where) {
  std::string out;
  for (const PatternPart& part : parts) {
    if (const auto* sign = std::get_if<std::string>(&part)) {
      out += *sign;
      continue;
    }
    const auto& set = std::get<CodePointSet>(part);
    if (set.ranges().empty()) {
      fail(ErrorCode::unsupported,
           "{}: the pattern has a class that nothing is in, which this tokenizer does not read; rewrite it",
           where);
    }
    out += class_of(alphabet.letters_of(set));
  }
  return out;
}

std::vector<CodePointSet> sets_of(std::span<const PatternPart> parts) {
  std::vector<CodePointSet> sets;
  for (const PatternPart& part : parts) {
    if (const auto* set = std::get_if<CodePointSet>(&part)) sets.push_back(*set);
  }
  return sets;
}

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

  std::optional<Match> find(std::string_view letters, std::size_t from) {
    const int status = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(letters.data()), letters.size(), from,
                                   0, data_.get(), nullptr);
    if (status == PCRE2_ERROR_NOMATCH) return std::nullopt;
    if (status < 0) {
      fail(ErrorCode::invalid_argument,
           "{}: the pattern cannot be matched near character {} of a stretch of text: {}; "
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

/// Cuts off the front of a text, a number of characters at a time.
class Cutter {
 public:
  Cutter(std::string_view text, std::size_t characters) : text_(text), is_ascii_(text.size() == characters) {}

  /// The characters from where the last word ended to number `end` of the text.
  std::string_view take_until(std::size_t end) {
    std::size_t bytes = is_ascii_ ? end - done_ : 0;
    for (; done_ < end && !is_ascii_; ++done_) bytes += utf8_size(text_[bytes]);
    done_ = end;
    const std::string_view word = text_.substr(0, bytes);
    text_.remove_prefix(bytes);
    return word;
  }

 private:
  static std::size_t utf8_size(char first) {
    const auto byte = static_cast<unsigned char>(first);
    return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
  }

  std::string_view text_;
  bool is_ascii_;
  std::size_t done_ = 0;  // characters
};

void split_one(Matcher& matcher, std::string_view letters, std::string_view text,
               std::vector<std::string_view>& words) {
  Cutter cutter(text, letters.size());
  std::size_t done = 0;  // everything before it is in words
  const auto add_until = [&](std::size_t end) {
    if (done < end) words.push_back(cutter.take_until(end));
    done = end;
  };
  std::size_t from = 0;
  while (from < letters.size()) {
    const auto match = matcher.find(letters, from);
    if (!match) break;
    add_until(match->begin);
    add_until(match->end);
    // After an empty match, look again one character further on.
    from = match->end > match->begin ? match->end : match->end + 1;
  }
  add_until(letters.size());
}

/// The parts of a pattern and an alphabet that tells their sets apart.
std::pair<std::vector<PatternPart>, Alphabet> read_pattern(std::string_view pattern,
                                                           const std::string& where) {
  if (first_ill_formed(pattern)) {
    fail(ErrorCode::corrupt, "{}: expected a pattern in UTF-8, found other bytes; repair the file", where);
  }
  std::vector<PatternPart> parts = PatternReader(pattern, where).read();
  Alphabet alphabet(sets_of(parts));
  if (!alphabet.fits()) {
    fail(ErrorCode::unsupported,
         "{}: the pattern tells more kinds of characters apart than the {} that this tokenizer can; shorten "
         "it",
         where, Alphabet::kLetters);
  }
  return {std::move(parts), std::move(alphabet)};
}

}  // namespace

void SplitPattern::CodeDeleter::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

SplitPattern::SplitPattern(std::string_view pattern, std::string where)
    : SplitPattern(read_pattern(pattern, where), where) {}

SplitPattern::SplitPattern(std::pair<std::vector<PatternPart>, Alphabet> read, std::string where)
    : where_(std::move(where)), alphabet_(std::move(read.second)) {
  const std::string spelled = spell_pattern(read.first, alphabet_, where_);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                            PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
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
  std::string letters;
  for (std::string_view text : texts) {
    alphabet_.spell(text, letters);
    split_one(matcher, letters, text, words);
  }
}

}  // namespace tandem::text
