#include "graph/model/gear.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "graph/model/rule_words.hpp"

namespace tandem {
namespace {

constexpr std::string_view kLayer = "layer";

std::optional<Gear> gear_named(std::string_view text) {
  for (int gear = 0; gear < kGears; ++gear) {
    if (text == name(static_cast<Gear>(gear))) return static_cast<Gear>(gear);
  }
  return std::nullopt;
}

bool is_group(Part part) { return part != Part::embedding; }

[[noreturn]] void fail_rule(std::string_view rule) {
  fail(ErrorCode::invalid_argument,
       "gear '{}': expected f32, bf16, q4 or q4q8, alone or after gdn=, attention=, mlp=, head=, layer.3=, "
       "layer.0-3= or layer.3.mlp=",
       rule);
}

}  // namespace

std::string_view name(Gear gear) {
  switch (gear) {
    case Gear::f32:
      return "f32";
    case Gear::bf16:
      return "bf16";
    case Gear::q4:
      return "q4";
    case Gear::q4q8:
      return "q4q8";
  }
  return "?";
}

bool Gears::Rule::covers(int layer, Part which) const {
  if (group && *group != which) return false;
  return first_layer == kNoLayer || (layer >= first_layer && layer <= last_layer);
}

int Gears::Rule::rank() const { return (first_layer == kNoLayer ? 0 : 2) + (group ? 1 : 0); }

Gears::Rule Gears::parse_rule(std::string_view text) {
  const std::vector<std::string_view> sides = split_words(text, '=');
  const std::optional<Gear> gear = gear_named(sides.back());
  if (!gear || sides.size() > 2) fail_rule(text);
  Rule rule{kNoLayer, kNoLayer, std::nullopt, *gear};
  if (sides.size() == 1) return rule;
  std::vector<std::string_view> words = split_words(sides.front(), '.');
  const bool in_layers = words.front() == kLayer;
  if (in_layers) {
    const std::optional<Layers> layers = words.size() > 1 ? layers_named(words[1]) : std::nullopt;
    if (!layers) fail_rule(text);
    rule.first_layer = layers->first;
    rule.last_layer = layers->last;
    words.erase(words.begin(), words.begin() + 2);
    if (words.empty()) return rule;
  }
  rule.group = part_named(words.front());
  if (words.size() > 1 || !rule.group || !is_group(*rule.group)) fail_rule(text);
  if (in_layers && *rule.group == Part::head) {
    fail(ErrorCode::invalid_argument, "gear '{}': the head is in no layer; write head={}", text, name(*gear));
  }
  return rule;
}

Gears Gears::parse(std::string_view text) {
  Gears gears;
  for (std::string_view rule : split_words(text, ',')) gears.rules_.push_back(parse_rule(rule));
  return gears;
}

std::optional<Gear> Gears::of(int layer, Part group) const {
  const Rule* best = nullptr;
  for (const Rule& rule : rules_) {
    if (rule.covers(layer, group) && (best == nullptr || rule.rank() >= best->rank())) best = &rule;
  }
  if (best == nullptr) return std::nullopt;
  return best->gear;
}

void Gears::require_layers(std::int64_t layers) const {
  for (const Rule& rule : rules_) {
    if (rule.last_layer < layers) continue;
    fail(ErrorCode::invalid_argument, "gear '{}': layer {} of a model of {} layers (0 to {})", text_of(rule),
         rule.last_layer, layers, layers - 1);
  }
}

std::string Gears::text_of(const Rule& rule) {
  std::string where;
  if (rule.first_layer != kNoLayer) {
    where = fmt::format("{}.{}", kLayer, rule.first_layer);
    if (rule.last_layer != rule.first_layer) where += fmt::format("-{}", rule.last_layer);
  }
  if (rule.group) where += fmt::format("{}{}", where.empty() ? "" : ".", name(*rule.group));
  return fmt::format("{}{}{}", where, where.empty() ? "" : "=", name(rule.gear));
}

std::string Gears::to_text() const {
  std::vector<std::string> rules;
  std::transform(rules_.begin(), rules_.end(), std::back_inserter(rules), text_of);
  return fmt::format("{}", fmt::join(rules, ","));
}

}  // namespace tandem
