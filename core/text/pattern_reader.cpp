#include "core/text/pattern_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "core/error.hpp"
#include "core/text/utf8.hpp"

namespace tandem::text {
namespace {

/// Beginnings of groups that Oniguruma and PCRE2 read alike.
constexpr std::string_view kGroups[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};

/// Where case is ignored, Oniguruma takes these pairs for one character too: a sharp s, ligatures.
constexpr std::string_view kFoldedPairs[] = {"ff", "fi", "fl", "ss", "st"};

constexpr char32_t kLongS = 0x17F, kKelvin = 0x212A;

bool is_in(char32_t c, std::string_view characters) {
  return c < 0x80 && characters.find(static_cast<char>(c)) != std::string_view::npos;
}

char32_t lower(char32_t c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; }

bool is_letter(char32_t c) { return lower(c) >= 'a' && lower(c) <= 'z'; }

bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }

bool is_hexadecimal(char32_t c) { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f'); }

CodePointSet one(char32_t c) { return {c, c}; }

/// The control character of an escape, or nothing.
std::optional<char32_t> control(char32_t c) {
  constexpr std::pair<char, char32_t> kControls[] = {{'t', 0x09}, {'n', 0x0A}, {'v', 0x0B}, {'f', 0x0C},
                                                     {'r', 0x0D}, {'a', 0x07}, {'e', 0x1B}};
  for (const auto& [name, value] : kControls) {
    if (c == static_cast<char32_t>(name)) return value;
  }
  return std::nullopt;
}

}  // namespace

std::vector<PatternPart> PatternReader::read() && {
  while (at_ < pattern_.size()) {
    const char c = pattern_[at_];
    if (is_in(static_cast<unsigned char>(c), "()|?*+{.^$[")) {
      last_letter_ = 0;
      read_operator(c);
    } else if (c == '\\') {
      last_letter_ = 0;
      ++at_;
      parts_.emplace_back(in_either_case(read_escape()));
    } else {
      add_literal(take_character());
    }
  }
  return std::move(parts_);
}

void PatternReader::read_operator(char c) {
  switch (c) {
    case '(':
      return read_group();
    case ')':
      if (ignores_case_.size() > 1) ignores_case_.pop_back();
      return add_operator(")");
    case '{':
      return read_count();
    case '[':
      return read_class();
    case '.':
      ++at_;
      parts_.emplace_back(one('\n').complement());
      return;
    case '^':
    case '$':
      refuse("the anchor ^ or $");
    default:
      return add_operator({&c, 1});
  }
}

void PatternReader::read_group() {
  if (take("(?i:")) {
    parts_.emplace_back("(?:");
    ignores_case_.push_back(true);
    return;
  }
  ignores_case_.push_back(ignores_case_.back());
  for (std::string_view group : kGroups) {
    if (next_is(group)) return add_operator(group);
  }
  if (next_is("(?") || next_is("(*")) refuse("a group of a kind that is not known here");
  add_operator("(");
}

/// {n}, {n,} and {n,m}. A sign behind it has another sense in Oniguruma.
void PatternReader::read_count() {
  std::size_t end = at_ + 1;
  const auto take_digits = [&] {
    const std::size_t begin = end;
    while (end < pattern_.size() && is_digit(static_cast<unsigned char>(pattern_[end]))) ++end;
    return end > begin;
  };
  const bool begins = take_digits();
  if (end < pattern_.size() && pattern_[end] == ',') {
    ++end;
    take_digits();
  }
  if (!begins || end >= pattern_.size() || pattern_[end] != '}') refuse("a '{' that begins no {n,m}");
  add_operator(pattern_.substr(at_, end + 1 - at_));
  if (at_ < pattern_.size() && is_in(static_cast<unsigned char>(pattern_[at_]), "?+*{")) {
    refuse("a sign after {n,m}");
  }
}

void PatternReader::read_class() {
  ++at_;
  const bool is_inverted = take("^");
  if (is_inverted && ignores_case_.back()) refuse("an inverted class where case is ignored");
  if (next_is("]")) refuse("a class that starts with ']'");
  CodePointSet set;
  while (!next_is("]")) {
    if (at_ >= pattern_.size()) refuse("a class that does not end");
    set.add(read_class_item());
  }
  ++at_;
  set = in_either_case(std::move(set));
  parts_.emplace_back(is_inverted ? set.complement() : std::move(set));
}

/// A character, a range or an escape.
CodePointSet PatternReader::read_class_item() {
  if (next_is("[")) refuse("a class inside a class");
  if (next_is("&&")) refuse("the class operator '&&'");
  const auto read_end = [this] { return take("\\") ? read_escape() : one(take_character()); };
  CodePointSet first = read_end();
  const bool is_range = next_is("-") && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
  if (!is_range) return first;
  ++at_;
  if (next_is("[")) refuse("a class inside a class");
  const CodePointSet last = read_end();
  const auto is_one = [](const CodePointSet& set) {
    return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
  };
  if (!is_one(first) || !is_one(last) || first.ranges()[0].first > last.ranges()[0].first) {
    refuse("a range that is not from one character to a later one");
  }
  return {first.ranges()[0].first, last.ranges()[0].first};
}

/// What stands after a backslash.
CodePointSet PatternReader::read_escape() {
  if (at_ >= pattern_.size()) refuse("a backslash at the end");
  const char32_t c = take_character();
  if (c == 's') return CodePointSet::white_space();
  if (c == 'S') return CodePointSet::white_space().complement();
  if (c == 'd') return *CodePointSet::category("Nd");
  if (c == 'D') return CodePointSet::category("Nd")->complement();
  if (c == 'p' || c == 'P') return read_property(c == 'P');
  if (c == 'x' || c == 'u') {
    --at_;
    return one(read_hexadecimal());
  }
  if (const auto value = control(c)) return one(*value);
  if (c >= 0x80 || is_letter(c) || is_digit(c)) {
    refuse(fmt::format("\\{}", pattern_.substr(at_ - 1, c < 0x80 ? 1 : 0)));
  }
  return one(c);
}

CodePointSet PatternReader::read_property(bool is_inverted) {
  const std::size_t end = pattern_.find('}', at_);
  if (!take("{") || end == std::string_view::npos) refuse("\\p without a name in braces");
  if (take("^")) is_inverted = !is_inverted;
  const std::string_view name = pattern_.substr(at_, end - at_);
  const auto set = CodePointSet::category(name);
  if (!set) refuse("a property that is no general category");
  at_ = end + 1;
  return is_inverted ? set->complement() : *set;
}

/// \xHH, \x{H...} and \uHHHH. Of the two digits only ASCII: beyond it Oniguruma means a byte.
char32_t PatternReader::read_hexadecimal() {
  const bool is_long = take("u");
  const bool has_braces = !is_long && take("x{");
  if (!is_long && !has_braces) take("x");
  const std::size_t most = is_long ? 4 : has_braces ? 8 : 2;
  char32_t value = 0;
  std::size_t digits = 0;
  for (; digits < most && at_ < pattern_.size(); ++digits, ++at_) {
    const char32_t c = lower(static_cast<unsigned char>(pattern_[at_]));
    if (!is_hexadecimal(c)) break;
    value = value * 16 + (is_digit(c) ? c - '0' : c - 'a' + 10);
  }
  const bool ends = has_braces ? digits > 0 && take("}") : digits == most;
  const bool is_character = value <= kLastCodePoint && (value < 0xD800 || value > 0xDFFF);
  if (!ends || !is_character || (most == 2 && value >= 0x80)) refuse("\\x or \\u that is no character");
  return value;
}

void PatternReader::add_literal(char32_t code_point) {
  if (ignores_case_.back()) {
    const char letter = code_point < 0x80 ? static_cast<char>(lower(code_point)) : '\0';
    const std::array pair{last_letter_, letter};
    if (std::ranges::find(kFoldedPairs, std::string_view(pair.data(), 2)) != std::end(kFoldedPairs)) {
      refuse("'ff', 'fi', 'fl', 'ss' or 'st' where case is ignored");
    }
    last_letter_ = letter;
  }
  parts_.emplace_back(in_either_case(one(code_point)));
}

/// Where case is ignored, `set` and what differs from it by case only; else `set`.
CodePointSet PatternReader::in_either_case(CodePointSet set) const {
  if (!ignores_case_.back()) return set;
  CodePointSet both = set;
  for (const CodePointRange& range : set.ranges()) {
    if (range.last >= 0x80) refuse("other than ASCII where case is ignored");
    for (char32_t c = range.first; c <= range.last; ++c) {
      if (!is_letter(c)) continue;
      both.add(one(c ^ 0x20));
      if (lower(c) == 's') both.add(one(kLongS));
      if (lower(c) == 'k') both.add(one(kKelvin));
    }
  }
  return both;
}

bool PatternReader::take(std::string_view text) {
  if (!next_is(text)) return false;
  at_ += text.size();
  return true;
}

char32_t PatternReader::take_character() {
  const Utf8Step step = utf8_step(pattern_.substr(at_));
  at_ += step.size;
  return step.code_point;
}

void PatternReader::add_operator(std::string_view text) {
  parts_.emplace_back(std::string(text));
  at_ += text.size();
}

void PatternReader::refuse(std::string_view what) const {
  fail(ErrorCode::unsupported,
       "{}: the pattern uses {} (near byte {}), which this tokenizer does not read; rewrite it without that",
       where_, what, at_);
}

}  // namespace tandem::text
