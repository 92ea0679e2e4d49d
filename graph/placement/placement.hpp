#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/context.hpp"
#include "graph/model/graph.hpp"

namespace tandem {

/// Where one (layer, part) goes, and why.
struct Place {
  int backend = 0;  ///< index into the names that the placement was parsed with
  std::string reason;
};

/// What the user asked for: a list of rules, later ones overriding earlier ones.
///
///     cpu                     everything
///     cuda:0                  everything on the device of that name; cuda is the first one
///     cpu,cuda:8-15           layers 8 to 15 elsewhere; cuda:1:8-15 on the second device
///     cpu,cuda:gdn            one part of every layer: embedding, gdn, attention, mlp, head
///     cpu,cuda:8-15:mlp       one part of some layers
///
/// A single layer is a number (cpu:3). After a name that devices share a number is the device's, so there it
/// is written as a range or after the device: cuda:3-3, cuda:0:3.
///
/// A rule with layers covers the parts of these layers; embedding and head belong to no layer. Where no rule
/// covers them, the embedding goes where layer 0 begins and the head where the last layer ends.
class Placement {
 public:
  /// `backends` are the names that a rule may begin with. Throws Error(invalid_argument) saying what a rule
  /// looks like; an unknown backend is Error(unsupported) with the names that there are, and with the reason
  /// if it is one of the `absent` ones.
  static Placement parse(std::string_view text, std::span<const std::string> backends, int layers,
                         std::span<const AbsentBackend> absent = {});

  /// Throws Error(invalid_argument) when no rule covers it; parse() has made sure that one does.
  Place of(int layer, Part part) const;

  /// The same rules with the backends numbered as in `to` instead of `from`; those not in `to` cover nothing
  /// that matters.
  Placement renumbered(std::span<const std::string> from, std::span<const std::string> to) const;

  /// The same places with one reason for all, for rules that nobody wrote.
  Placement explained(std::string reason) const;

 private:
  struct Rule {
    int backend = 0;
    int first_layer = kNoLayer;  ///< kNoLayer: of any layer
    int last_layer = kNoLayer;
    int part = -1;  ///< -1: any part
    std::string text;

    bool covers(int layer, Part which) const;
  };
  static Rule parse_rule(std::string_view text, std::span<const std::string> backends, int layers,
                         std::span<const AbsentBackend> absent);
  const Rule* find(int layer, Part part) const;

  int layers_ = 0;
  std::vector<Rule> rules_;
  std::string reason_;  ///< empty: the rule
};

/// Index of the backend that `name` alone means: a name, or what comes before the colon in the first of
/// several ("cuda" for "cuda:0"). Throws Error(unsupported) as Placement::parse.
int backend_named(std::string_view name, std::span<const std::string> backends,
                  std::span<const AbsentBackend> absent = {});

/// The rules that put the last `count` of all layers on `device` and the rest on `host`; with a count above
/// `layers` embedding and head go to the device too. REQUIRES: count >= 0.
std::string last_layers_on(std::string_view device, std::string_view host, std::int64_t count, int layers);

}  // namespace tandem
