#include "tools/gears/layer_values.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/model/tensor_names.hpp"
#include "tools/oracle/layer_run.hpp"

namespace tandem::tools {
namespace {

constexpr std::int64_t kStepTokens = 64;
constexpr std::string_view kLayerZero = "layers.0.";

/// Steps over x, one token alone at each end.
class MixerSteps {
 public:
  MixerSteps(LayerRun& run, std::span<const float> x, std::int64_t hidden)
      : run_(run), x_(x), hidden_(hidden) {}

  TokenValues one_token(std::int64_t token) {
    TokenValues values;
    const auto keep = [&](const Node&, const Value& value, const ConstTensor& host) {
      const auto* first = static_cast<const float*>(host.data);
      if (wanted(value.name)) values[value.name].assign(first, first + host.shape.elements());
    };
    run_.step(rows(token, 1), keep);
    const LayerState layer = run_.state();
    const std::span<const std::byte> state = layer.piece("recurrent");
    values["S"].resize(state.size() / sizeof(float));
    std::memcpy(values["S"].data(), state.data(), state.size());
    return values;
  }
  void many(std::int64_t begin, std::int64_t end, const std::function<bool()>& interrupted) {
    for (std::int64_t t = begin; t < end; t += kStepTokens) {
      if (interrupted && interrupted())
        fail(ErrorCode::interrupted, "interrupted after {} tokens of a layer", t);
      run_.step(rows(t, std::min(kStepTokens, end - t)));
    }
  }

 private:
  static bool wanted(std::string_view name) {
    return std::find(std::begin(kBudgetOperators), std::end(kBudgetOperators), name) !=
           std::end(kBudgetOperators);
  }
  std::span<const float> rows(std::int64_t first, std::int64_t count) const {
    return x_.subspan(static_cast<std::size_t>(first * hidden_), static_cast<std::size_t>(count * hidden_));
  }

  LayerRun& run_;
  std::span<const float> x_;
  std::int64_t hidden_;
};

}  // namespace

WeightSource layer_source(const Model& model, int layer) {
  return [&model, prefix = fmt::format("layers.{}.", layer)](const Weight& weight) {
    const std::string name = prefix + weight.name.substr(kLayerZero.size());
    return WeightData(model.weight(weight_named(model.graph(), name)).on_host());
  };
}

std::shared_ptr<const Model> one_mixer(const ModelConfig& config, Gear gear, const WeightSource& source,
                                       Projections which) {
  ModelConfig one = config;
  one.num_hidden_layers = 1;
  one.layer_types = {LayerKind::recurrent};
  const auto gear_of = [=](const Weight& weight) {
    const bool chosen = which == Projections::all || weight.name.ends_with("out_proj.weight");
    return weight.group && chosen ? gear : Gear::f32;
  };
  Graph graph = build_gdn_graph(one, 0, gear_of);
  return std::make_shared<const Model>(std::move(one), std::move(graph), source);
}

LayerValues run_mixer(const Context& context, const std::string& place,
                      const std::shared_ptr<const Model>& model, std::span<const float> x,
                      const std::function<bool()>& interrupted) {
  const std::int64_t hidden = model->config().hidden_size, tokens = std::ssize(x) / hidden;
  LayerRun run(context, place, model, std::min(tokens, kStepTokens));
  if (run.real() != DType::f32) {
    fail(ErrorCode::unsupported, "{} computes in {}: gears are compared on a backend that computes in f32",
         place, name(run.real()));
  }
  MixerSteps steps(run, x, hidden);
  LayerValues values;
  values.first = steps.one_token(0);
  if (tokens > 1) steps.many(1, tokens - 1, interrupted);
  values.last = tokens > 1 ? steps.one_token(tokens - 1) : values.first;
  return values;
}

}  // namespace tandem::tools
