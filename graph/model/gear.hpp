#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"

namespace tandem {

enum class Part : std::uint8_t;

/// How a projection is computed: what its weight is in, and how it takes its activations.
enum class Gear : std::uint8_t {
  f32,
  bf16,
  q4,   ///< 4-bit weights (core/q4.hpp), activations as they are
  q4q8  ///< the same weights, activations in 8 bits per block of 32
};
inline constexpr int kGears = 4;
std::string_view name(Gear gear);

/// What a weight of this gear is in. q4 and q4q8 share one storage.
constexpr DType weight_dtype(Gear gear) {
  return gear == Gear::f32 ? DType::f32 : gear == Gear::bf16 ? DType::bf16 : DType::q4;
}
inline bool is_4_bit(Gear gear) { return weight_dtype(gear) == DType::q4; }

/// Which gears were asked for: a list of rules.
///
///     q4q8                   everything that has a choice
///     mlp=q4                 one group of every layer: gdn, attention, mlp; or the head
///     layer.3=f32            the groups of a layer, or of a range of layers: layer.0-3=q4
///     layer.3.mlp=bf16       one group of some layers
///
/// What names more wins: layer and group over layer, layer over group, group over everything. Of rules that
/// name as much the later one wins. The head is in no layer. Plain data.
class Gears {
 public:
  /// Nothing is asked for: every weight stays in what it is stored in.
  Gears() = default;
  /// Throws Error(invalid_argument) quoting the rule and saying what was expected.
  static Gears parse(std::string_view text);

  bool empty() const { return rules_.empty(); }
  /// What was asked for a group of a layer (kNoLayer: the head).
  std::optional<Gear> of(int layer, Part group) const;
  /// Throws Error(invalid_argument) when a rule names a layer that a model of `layers` layers has not.
  void require_layers(std::int64_t layers) const;
  /// What parse() takes as the same gears; "" when nothing is asked for.
  std::string to_text() const;

 private:
  struct Rule {
    int first_layer;  ///< kNoLayer: of any layer
    int last_layer;
    std::optional<Part> group;  ///< nothing: any
    Gear gear;

    bool covers(int layer, Part which) const;
    /// How much it names; of rules that cover a weight the highest wins.
    int rank() const;
  };
  static Rule parse_rule(std::string_view text);
  static std::string text_of(const Rule& rule);

  std::vector<Rule> rules_;
};

}  // namespace tandem
