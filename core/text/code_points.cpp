#include "core/text/code_points.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tandem::text {
namespace {

#include "core/text/unicode/categories.inc"

/// In the order of generate.py, beside the table.
constexpr std::array<std::string_view, 30> kCategories = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

}  // namespace

std::optional<CodePointSet> CodePointSet::category(std::string_view name) {
  const auto is_asked = [name](std::string_view category) {
    return category == name || (name.size() == 1 && category.starts_with(name));
  };
  if (std::ranges::none_of(kCategories, is_asked)) return std::nullopt;
  CodePointSet set;
  for (std::size_t i = 0; i < std::size(kCategoryRuns); ++i) {
    if (!is_asked(kCategories[kCategoryRuns[i] & 31])) continue;
    const char32_t first = kCategoryRuns[i] >> 5;
    const bool is_last = i + 1 == std::size(kCategoryRuns);
    const char32_t last = is_last ? kLastCodePoint : (kCategoryRuns[i + 1] >> 5) - 1;
    if (!set.ranges_.empty() && set.ranges_.back().last + 1 == first) {
      set.ranges_.back().last = last;
    } else {
      set.ranges_.push_back({first, last});
    }
  }
  return set;
}

const CodePointSet& CodePointSet::white_space() {
  static const CodePointSet set = [] {
    CodePointSet spaces = *category("Z");
    spaces.add({0x09, 0x0D});
    spaces.add({0x85, 0x85});
    return spaces;
  }();
  return set;
}

void CodePointSet::add(const CodePointSet& other) {
  std::vector<CodePointRange> all(ranges_);
  all.insert(all.end(), other.ranges_.begin(), other.ranges_.end());
  std::ranges::sort(all, {}, &CodePointRange::first);
  ranges_.clear();
  for (const CodePointRange& range : all) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

CodePointSet CodePointSet::complement() const {
  CodePointSet set;
  char32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (next < range.first) set.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) set.ranges_.push_back({next, kLastCodePoint});
  return set;
}

}  // namespace tandem::text
