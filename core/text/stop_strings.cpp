#include "core/text/stop_strings.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/text/utf8.hpp"

namespace tandem {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  for (const std::string& string : strings_) {
    if (string.empty()) fail(ErrorCode::invalid_argument, "a stop string is empty: expected some text");
    if (const auto offset = text::first_ill_formed(string)) {
      fail(ErrorCode::invalid_argument, "a stop string is not UTF-8 at byte {}: no text would contain it",
           *offset);
    }
  }
  std::ranges::stable_sort(strings_, std::ranges::greater{}, &std::string::size);
}

/// Bytes at the end of held_ that some string begins with.
std::size_t StopStrings::beginning() const {
  const std::size_t longest = strings_.empty() ? 0 : strings_.front().size() - 1;
  for (std::size_t size = std::min(longest, held_.size()); size > 0; --size) {
    const std::string_view end = std::string_view(held_).substr(held_.size() - size);
    const auto begins = [&](const std::string& string) { return string.starts_with(end); };
    if (std::ranges::any_of(strings_, begins)) return size;
  }
  return 0;
}

std::string StopStrings::push(std::string_view piece) {
  std::string shown;
  for (const char byte : piece) {
    if (!found_.empty()) break;
    held_ += byte;
    const auto ends = [&](const std::string& string) { return held_.ends_with(string); };
    if (const auto match = std::ranges::find_if(strings_, ends); match != strings_.end()) {
      found_ = *match;
      shown.append(held_, 0, held_.size() - found_.size());
      held_.clear();
      break;
    }
    const std::size_t certain = held_.size() - beginning();
    shown.append(held_, 0, certain);
    held_.erase(0, certain);
  }
  return shown;
}

std::string StopStrings::flush() { return std::exchange(held_, {}); }

}  // namespace tandem
