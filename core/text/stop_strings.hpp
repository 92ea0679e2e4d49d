#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// Ends a text that comes in pieces before the first of some strings. Text that could be the beginning of
/// such a string is held back until it is known whether it is one.
///
/// The string whose last byte comes first counts, and of those that end there the longest: what is found
/// does not depend on how the text is cut into pieces. Not thread-safe.
class StopStrings {
 public:
  /// Throws Error(invalid_argument) for an empty string and for one that is not UTF-8.
  explicit StopStrings(std::vector<std::string> strings);

  /// What of the text so far can be shown now and was not yet. Nothing more once a string was found.
  std::string push(std::string_view piece);
  /// The text is over: what was held back, if no string was found.
  std::string flush();
  /// The string that was found; empty: none.
  const std::string& found() const { return found_; }

 private:
  std::size_t beginning() const;

  std::vector<std::string> strings_;
  std::string held_;
  std::string found_;
};

}  // namespace tandem
