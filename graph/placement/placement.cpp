#include "graph/placement/placement.hpp"

#include <algorithm>
#include <optional>

#include "core/error.hpp"
#include "graph/model/rule_words.hpp"

namespace tandem {
namespace {

bool in_layers(Part part) { return part != Part::embedding && part != Part::head; }

std::optional<int> index_of(std::string_view name, std::span<const std::string> names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<int>(found - names.begin());
}

/// The first of the backends that share the word before the colon.
std::optional<int> first_device(std::string_view name, std::span<const std::string> backends) {
  const std::string prefix = std::string(name) + ":";
  for (std::size_t i = 0; i < backends.size(); ++i) {
    if (backends[i].starts_with(prefix)) return static_cast<int>(i);
  }
  return std::nullopt;
}

[[noreturn]] void fail_unknown(std::string_view rule, std::string_view who,
                               std::span<const std::string> backends, std::span<const AbsentBackend> absent) {
  const auto known = std::find_if(absent.begin(), absent.end(), [&](auto& a) { return a.name == who; });
  fail(ErrorCode::unsupported, "placement '{}': no backend '{}' here{}; there are: {}", rule, who,
       known == absent.end() ? "" : fmt::format(" ({})", known->reason), fmt::join(backends, ", "));
}

/// What a rule's backend is, and which of its words come after it.
struct Head {
  int backend = 0;
  std::size_t words = 1;
};

Head head_of(std::string_view rule, const std::vector<std::string_view>& words,
             std::span<const std::string> backends, std::span<const AbsentBackend> absent) {
  const std::string two = words.size() > 1 ? fmt::format("{}:{}", words[0], words[1]) : "";
  if (const std::optional<int> device = index_of(two, backends)) return {*device, 2};
  if (const std::optional<int> backend = index_of(words[0], backends)) return {*backend, 1};
  const std::optional<int> first = first_device(words[0], backends);
  if (!first) fail_unknown(rule, words[0], backends, absent);
  if (words.size() > 1 && number_named(words[1])) {
    fail(ErrorCode::unsupported,
         "placement '{}': no backend '{}' here; there are: {}; layer {} alone is written {}:{}-{}", rule, two,
         fmt::join(backends, ", "), words[1], words[0], words[1], words[1]);
  }
  return {*first, 1};
}

[[noreturn]] void fail_selector(std::string_view rule) {
  fail(ErrorCode::invalid_argument,
       "placement '{}': expected a layer, a range of layers (0-15), a part (embedding, gdn, attention, mlp, "
       "head) or both (0-15:mlp) after the backend",
       rule);
}

}  // namespace

bool Placement::Rule::covers(int layer, Part which) const {
  if (part >= 0 && part != static_cast<int>(which)) return false;
  return first_layer == kNoLayer || (layer >= first_layer && layer <= last_layer);
}

Placement::Rule Placement::parse_rule(std::string_view text, std::span<const std::string> backends,
                                      int layers, std::span<const AbsentBackend> absent) {
  const std::vector<std::string_view> words = split_words(text, ':');
  const Head head = head_of(text, words, backends, absent);
  Rule rule;
  rule.backend = head.backend;
  rule.text = text;
  std::size_t next = head.words;
  if (next < words.size()) {
    if (const std::optional<Layers> range = layers_named(words[next])) {
      if (range->last >= layers) {
        fail(ErrorCode::invalid_argument, "placement '{}': layer {} of a model of {} layers (0 to {})", text,
             range->last, layers, layers - 1);
      }
      rule.first_layer = range->first;
      rule.last_layer = range->last;
      ++next;
    }
  }
  if (next < words.size()) {
    const std::optional<Part> part = part_named(words[next]);
    if (!part || (rule.first_layer != kNoLayer && !in_layers(*part))) fail_selector(text);
    rule.part = static_cast<int>(*part);
    ++next;
  }
  if (next < words.size()) fail_selector(text);
  return rule;
}

Placement Placement::parse(std::string_view text, std::span<const std::string> backends, int layers,
                           std::span<const AbsentBackend> absent) {
  Placement placement;
  placement.layers_ = layers;
  for (std::string_view rule : split_words(text, ',')) {
    placement.rules_.push_back(parse_rule(rule, backends, layers, absent));
  }
  for (int layer = 0; layer < layers; ++layer) {
    for (int part = 0; part < kParts; ++part) {
      if (in_layers(static_cast<Part>(part))) placement.of(layer, static_cast<Part>(part));
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

Placement Placement::explained(std::string reason) const {
  Placement result = *this;
  result.reason_ = std::move(reason);
  return result;
}

const Placement::Rule* Placement::find(int layer, Part part) const {
  const auto covers = [&](const Rule& rule) { return rule.covers(layer, part); };
  const auto rule = std::find_if(rules_.rbegin(), rules_.rend(), covers);
  return rule == rules_.rend() ? nullptr : &*rule;
}

Place Placement::of(int layer, Part part) const {
  if (const Rule* rule = find(layer, part)) {
    return {rule->backend, reason_.empty() ? "asked for: " + rule->text : reason_};
  }
  if (!in_layers(part)) {
    // A layer begins with its mixer and ends with its mlp.
    const int beside = part == Part::embedding ? 0 : layers_ - 1;
    const Part which = part == Part::embedding ? Part::gdn : Part::mlp;
    return {of(beside, which).backend,
            fmt::format("no rule for it: where layer {}'s {} is placed", beside, name(which))};
  }
  fail(ErrorCode::invalid_argument,
       "placement: no rule says where layer {}'s {} goes; begin with a backend alone, as in 'cpu,...'", layer,
       name(part));
}

int backend_named(std::string_view name, std::span<const std::string> backends,
                  std::span<const AbsentBackend> absent) {
  if (const std::optional<int> backend = index_of(name, backends)) return *backend;
  if (const std::optional<int> first = first_device(name, backends)) return *first;
  fail_unknown(name, name, backends, absent);
}

std::string last_layers_on(std::string_view device, std::string_view host, std::int64_t count, int layers) {
  if (count > layers) return std::string(device);
  if (count == 0) return std::string(host);
  return fmt::format("{},{}:{}-{}", host, device, layers - count, layers - 1);
}

}  // namespace tandem
