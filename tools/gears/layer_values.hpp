#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/context.hpp"
#include "graph/model/model.hpp"

namespace tandem::tools {

/// The operators of a Gated DeltaNet mixer whose values are compared, in the order in which they are
/// computed; S is the recurrent state after the token.
inline constexpr std::string_view kBudgetOperators[] = {"xc", "z",  "beta", "g",   "xcv", "q",
                                                        "k",  "on", "S",    "onn", "out"};

/// One token's values, by operator.
using TokenValues = std::map<std::string, std::vector<float>, std::less<>>;
struct LayerValues {
  TokenValues first, last;
};

/// Weights of layer `layer` of a model, for a graph in which it is layer 0. The model outlives it.
WeightSource layer_source(const Model& model, int layer);

/// Which of a mixer's large projections are in the gear; the others are in f32.
enum class Projections : std::uint8_t { all, out_alone };

/// The Gated DeltaNet mixer of a model's configuration alone, with weights from `source`; the small
/// projections are in f32.
std::shared_ptr<const Model> one_mixer(const ModelConfig& config, Gear gear, const WeightSource& source,
                                       Projections which = Projections::all);

/// Feeds x [tokens, hidden] to a mixer on the backend called `place`. REQUIRES: a model made by one_mixer, at
/// least one token (which is the first and the last then). Throws Error(interrupted) when `interrupted`
/// returns true between steps.
LayerValues run_mixer(const Context& context, const std::string& place,
                      const std::shared_ptr<const Model>& model, std::span<const float> x,
                      const std::function<bool()>& interrupted = {});

}  // namespace tandem::tools
