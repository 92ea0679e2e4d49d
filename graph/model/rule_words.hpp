#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/model/graph.hpp"

/// What rules of placements and gears are made of. Stateless.
namespace tandem {

/// A range of layers, both ends included.
struct Layers {
  int first, last;
};

/// "3" or "0-15"; nothing for any other text.
std::optional<Layers> layers_named(std::string_view text);
/// A whole number >= 0; nothing for any other text.
std::optional<int> number_named(std::string_view text);
/// The part of that name, if there is one.
std::optional<Part> part_named(std::string_view text);

/// The words between separators, empty ones too; at least one.
std::vector<std::string_view> split_words(std::string_view text, char separator);

}  // namespace tandem
