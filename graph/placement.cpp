#include "graph/placement.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/error.hpp"

namespace tandem {
namespace {

std::optional<Part> part_named(std::string_view text) {
  for (int part = 0; part < kParts; ++part) {
    if (text == name(static_cast<Part>(part))) return static_cast<Part>(part);
  }
  return std::nullopt;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

struct Layers {
  int first, last;
};

std::optional<Layers> layers_named(std::string_view text) {
  const std::size_t dash = text.find('-');
  const std::optional<int> first = number(text.substr(0, dash));
  const std::optional<int> last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return Layers{*first, *last};
}

}  // namespace

bool Placement::Rule::covers(int layer, Part which) const {
  if (part >= 0 && part != static_cast<int>(which)) return false;
  return first_layer == kNoLayer || (layer >= first_layer && layer <= last_layer);
}

Placement::Rule Placement::parse_rule(std::string_view text, std::span<const std::string> backends,
                                      int layers) {
  const std::size_t colon = text.find(':');
  const std::string_view who = text.substr(0, colon);
  const auto backend = std::find(backends.begin(), backends.end(), who);
  if (backend == backends.end()) {
    fail(ErrorCode::unsupported, "placement '{}': no backend '{}' here; there are: {}", text, who,
         fmt::join(backends, ", "));
  }
  Rule rule;
  rule.backend = static_cast<int>(backend - backends.begin());
  rule.text = text;
  if (colon == std::string_view::npos) return rule;
  const std::string_view selector = text.substr(colon + 1);
  if (const std::optional<Part> part = part_named(selector)) {
    rule.part = static_cast<int>(*part);
  } else if (const std::optional<Layers> range = layers_named(selector)) {
    if (range->last >= layers) {
      fail(ErrorCode::invalid_argument, "placement '{}': layer {} of a model of {} layers (0 to {})", text,
           range->last, layers, layers - 1);
    }
    rule.first_layer = range->first;
    rule.last_layer = range->last;
  } else {
    fail(ErrorCode::invalid_argument,
         "placement '{}': expected a layer, a range of layers (0-15) or a part (embedding, gdn, attention, "
         "mlp, head) after "
         "the colon",
         text);
  }
  return rule;
}

Placement Placement::parse(std::string_view text, std::span<const std::string> backends, int layers) {
  Placement placement;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    placement.rules_.push_back(parse_rule(text.substr(begin, end - begin), backends, layers));
    begin = end + 1;
  }
  for (int part = 0; part < kParts; ++part) {
    const bool in_layers = part != static_cast<int>(Part::embedding) && part != static_cast<int>(Part::head);
    for (int layer = in_layers ? 0 : kNoLayer; layer < (in_layers ? layers : 0); ++layer) {
      placement.of(layer, static_cast<Part>(part));
    }
  }
  return placement;
}

Placement Placement::renumbered(std::span<const std::string> from, std::span<const std::string> to) const {
  Placement result = *this;
  for (Rule& rule : result.rules_) {
    rule.backend = static_cast<int>(
        std::find(to.begin(), to.end(), from[static_cast<std::size_t>(rule.backend)]) - to.begin());
  }
  return result;
}

Place Placement::of(int layer, Part part) const {
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (rule->covers(layer, part)) return {rule->backend, "asked for: " + rule->text};
  }
  fail(ErrorCode::invalid_argument,
       "placement: no rule says where {} {} goes; begin with a backend alone, as in 'cpu,...'",
       layer == kNoLayer ? "the" : fmt::format("layer {}'s", layer), name(part));
}

}  // namespace tandem
