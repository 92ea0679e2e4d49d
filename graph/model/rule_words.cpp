#include "graph/model/rule_words.hpp"

#include <algorithm>
#include <charconv>

namespace tandem {

std::optional<Part> part_named(std::string_view text) {
  for (int part = 0; part < kParts; ++part) {
    if (text == name(static_cast<Part>(part))) return static_cast<Part>(part);
  }
  return std::nullopt;
}

std::optional<int> number_named(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<Layers> layers_named(std::string_view text) {
  const std::size_t dash = text.find('-');
  const std::optional<int> first = number_named(text.substr(0, dash));
  const std::optional<int> last =
      dash == std::string_view::npos ? first : number_named(text.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return Layers{*first, *last};
}

std::vector<std::string_view> split_words(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace tandem
