#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/alphabet.hpp"
#include "core/text/pattern_reader.hpp"

struct pcre2_real_code_8;

namespace tandem::text {

/// A regular expression that cuts text into words, as "Split" with behaviour "Isolated" does: each match is a
/// word, and so is each stretch between matches. It is read as Oniguruma with Unicode 16.0.0 reads it, which
/// is what the Python package `tokenizers` does (see PatternReader), and matched by PCRE2 over the letters of
/// an Alphabet, compiled to machine code where PCRE2 can: no table of the installed library decides a cut.
///
/// Thread-safe after construction.
class SplitPattern {
 public:
  /// `where` names the file and key for messages. Throws corrupt for a pattern that does not compile and
  /// unsupported for one that uses what this class does not read.
  SplitPattern(std::string_view pattern, std::string where);

  /// Appends the words of each text, in order, as views into those texts; no word is empty.
  /// REQUIRES: each text is well-formed UTF-8. Throws invalid_argument when a text exhausts PCRE2's limits.
  void split(std::span<const std::string_view> texts, std::vector<std::string_view>& words) const;

 private:
  struct CodeDeleter {
    void operator()(pcre2_real_code_8* code) const;
  };

  SplitPattern(std::pair<std::vector<PatternPart>, Alphabet> read, std::string where);

  std::string where_;
  Alphabet alphabet_;
  std::unique_ptr<pcre2_real_code_8, CodeDeleter> code_;
};

}  // namespace tandem::text
