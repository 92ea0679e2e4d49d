#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct pcre2_real_code_8;

namespace tandem::text {

/// A regular expression that cuts text into words, as "Split" with behaviour "Isolated" does: each match is a
/// word, and so is each stretch between matches. Matched by PCRE2 with Unicode properties, compiled to
/// machine code where PCRE2 can.
///
/// tokenizer.json is written for Oniguruma; where the two read a pattern differently, this class follows
/// Oniguruma
/// (\s is White_Space) or refuses (set operations inside a class, line anchors, \h).
///
/// Thread-safe after construction.
class SplitPattern {
 public:
  /// `where` names the file and key for messages. Throws corrupt for a pattern that does not compile and
  /// unsupported for one that PCRE2 would read in another sense.
  SplitPattern(std::string_view pattern, std::string where);

  /// Appends the words of each text, in order, as views into those texts; no word is empty.
  /// REQUIRES: each text is well-formed UTF-8. Throws invalid_argument when a text exhausts PCRE2's limits.
  void split(std::span<const std::string_view> texts, std::vector<std::string_view>& words) const;

 private:
  struct CodeDeleter {
    void operator()(pcre2_real_code_8* code) const;
  };

  std::string where_;
  std::unique_ptr<pcre2_real_code_8, CodeDeleter> code_;
};

}  // namespace tandem::text
