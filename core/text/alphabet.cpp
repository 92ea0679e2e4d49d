#include "core/text/alphabet.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/text/utf8.hpp"

namespace tandem::text {
namespace {

constexpr char32_t kAsciiEnd = 0x80;

/// Where membership in one of the sets changes: the code point and the set.
std::vector<std::pair<char32_t, std::size_t>> borders_of(std::span<const CodePointSet> sets) {
  std::vector<std::pair<char32_t, std::size_t>> borders;
  for (std::size_t set = 0; set < sets.size(); ++set) {
    for (const CodePointRange& range : sets[set].ranges()) {
      borders.emplace_back(range.first, set);
      borders.emplace_back(range.last + 1, set);
    }
  }
  std::ranges::sort(borders);
  return borders;
}

}  // namespace

Alphabet::Alphabet(std::span<const CodePointSet> sets) : letter_(kLastCodePoint + 1) {
  for (char32_t c = 0; c < kAsciiEnd; ++c) {
    letter_[c] = static_cast<std::uint8_t>(c);
    examples_.push_back(c);
  }
  std::map<std::vector<bool>, std::uint8_t> letters;  // by membership in each of the sets
  std::vector<bool> membership(sets.size());
  const auto borders = borders_of(sets);
  char32_t begin = 0;
  for (std::size_t i = 0; i <= borders.size(); ++i) {
    const char32_t end = i < borders.size() ? borders[i].first : kLastCodePoint + 1;
    if (const char32_t from = std::max(begin, kAsciiEnd); from < end) {
      const auto [found, is_new] =
          letters.try_emplace(membership, static_cast<std::uint8_t>(examples_.size()));
      if (is_new && examples_.size() == kLetters) {
        fits_ = false;
        return;
      }
      if (is_new) examples_.push_back(from);
      std::fill(letter_.begin() + from, letter_.begin() + end, found->second);
    }
    if (i < borders.size()) membership[borders[i].second].flip();
    begin = end;
  }
}

std::vector<bool> Alphabet::letters_of(const CodePointSet& set) const {
  std::vector<bool> is_in(kLetters);
  for (std::size_t letter = 0; letter < examples_.size(); ++letter) {
    is_in[letter] = std::ranges::any_of(set.ranges(), [c = examples_[letter]](const CodePointRange& range) {
      return range.first <= c && c <= range.last;
    });
  }
  return is_in;
}

void Alphabet::spell(std::string_view text, std::string& letters) const {
  letters.clear();
  letters.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < kAsciiEnd) {
      letters.push_back(text[at]);
      ++at;
      continue;
    }
    const Utf8Step step = utf8_step(text.substr(at));
    letters.push_back(static_cast<char>(letter_[step.code_point]));
    at += step.size;
  }
}

}  // namespace tandem::text
