#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/text/code_points.hpp"

namespace tandem::text {

/// A regular expression in parts: operators as they stand, and the set of code points that each literal,
/// class and escape matches.
using PatternPart = std::variant<std::string, CodePointSet>;

/// Reads a pattern that is written for Oniguruma, as the patterns of tokenizer.json are, in the sense that
/// Oniguruma gives it: \s is White_Space, (?i:s) matches U+017F too. What Oniguruma and PCRE2 read
/// differently, or what depends on tables that are not here, is refused.
class PatternReader {
 public:
  /// `where` names the file and key for messages. Borrows both. REQUIRES: pattern is well-formed UTF-8.
  PatternReader(std::string_view pattern, std::string_view where) : pattern_(pattern), where_(where) {}

  /// Throws unsupported for what is refused.
  std::vector<PatternPart> read() &&;

 private:
  void read_operator(char c);
  void read_group();
  void read_count();
  void read_class();
  CodePointSet read_class_item();
  CodePointSet read_escape();
  CodePointSet read_property(bool is_inverted);
  char32_t read_hexadecimal();
  void add_literal(char32_t code_point);
  CodePointSet in_either_case(CodePointSet set) const;

  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool take(std::string_view text);
  char32_t take_character();
  void add_operator(std::string_view text);
  [[noreturn]] void refuse(std::string_view what) const;

  std::string_view pattern_, where_;
  std::size_t at_ = 0;
  std::vector<bool> ignores_case_{false};  // of the groups that are open, the innermost last
  char last_letter_ = 0;                   // the ASCII letter just before, where case is ignored
  std::vector<PatternPart> parts_;
};

}  // namespace tandem::text
