#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/code_points.hpp"

namespace tandem::text {

/// A letter of one byte for each code point, such that code points share a letter only if no set of a pattern
/// tells them apart: 128 letters for ASCII, which stand for themselves, and one for each kind of other code
/// points. A pattern over letters matches a text of letters where the pattern over code points matches the
/// text, and whoever matches it needs no table of Unicode.
///
/// Thread-safe after construction.
class Alphabet {
 public:
  static constexpr std::size_t kLetters = 256;

  /// Whether `sets` need no more letters than there are. Else the alphabet is of no use.
  explicit Alphabet(std::span<const CodePointSet> sets);
  bool fits() const { return fits_; }

  /// By letter, whether its code points are in `set`, which is one of the constructor's. REQUIRES: fits().
  std::vector<bool> letters_of(const CodePointSet& set) const;

  /// One letter for each character of `text`. REQUIRES: fits(); text is well-formed UTF-8.
  void spell(std::string_view text, std::string& letters) const;

 private:
  bool fits_ = true;
  std::vector<std::uint8_t> letter_;  // by code point
  std::vector<char32_t> examples_;    // by letter: one of its code points
};

}  // namespace tandem::text
