#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"

namespace tandem {

/// Where one (layer, part) goes, and why.
struct Place {
  int backend = 0;  ///< index into the names that the placement was parsed with
  std::string reason;
};

/// What the user asked for: a list of rules, later ones overriding earlier ones.
///
///     cpu                     everything
///     cpu,other:8-15          layers 8 to 15 elsewhere
///     cpu,other:gdn           one part of every layer: embedding, gdn, attention, mlp, head
///
/// A rule with layers covers the parts of these layers; embedding and head belong to no layer.
class Placement {
 public:
  /// `backends` are the names that a rule may begin with. Throws Error(invalid_argument) saying what a rule
  /// looks like and which names there are; an unknown backend is Error(unsupported).
  static Placement parse(std::string_view text, std::span<const std::string> backends, int layers);

  /// Throws Error(invalid_argument) when no rule covers it; parse() has made sure that one does.
  Place of(int layer, Part part) const;

  /// The same rules with the backends numbered as in `to` instead of `from`; those not in `to` cover nothing
  /// that matters.
  Placement renumbered(std::span<const std::string> from, std::span<const std::string> to) const;

 private:
  struct Rule {
    int backend = 0;
    int first_layer = kNoLayer;  ///< kNoLayer: of any layer
    int last_layer = kNoLayer;
    int part = -1;  ///< -1: any part
    std::string text;

    bool covers(int layer, Part which) const;
  };
  static Rule parse_rule(std::string_view text, std::span<const std::string> backends, int layers);

  std::vector<Rule> rules_;
};

}  // namespace tandem
