#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tandem::text {

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

/// First and last code point of a range.
struct CodePointRange {
  char32_t first, last;
};

/// A set of code points.
class CodePointSet {
 public:
  CodePointSet() = default;
  /// The code points from `first` to `last`, both included. REQUIRES: first <= last <= kLastCodePoint.
  CodePointSet(char32_t first, char32_t last) : ranges_{{first, last}} {}

  /// A general category of Unicode 16.0.0 ("Lu"), or all that begin with one letter ("L"). Nothing for
  /// another name. The version is that of the regular expressions of the Python package `tokenizers`.
  static std::optional<CodePointSet> category(std::string_view name);

  /// Unicode's White_Space property.
  static const CodePointSet& white_space();

  void add(const CodePointSet& other);
  CodePointSet complement() const;

  /// Sorted; between two ranges lies at least one code point.
  std::span<const CodePointRange> ranges() const { return ranges_; }

 private:
  std::vector<CodePointRange> ranges_;
};

}  // namespace tandem::text
