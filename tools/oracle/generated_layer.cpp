#include "tools/oracle/generated_layer.hpp"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/error.hpp"
#include "core/io/json.hpp"
#include "core/random.hpp"
#include "graph/model/qwen35.hpp"

namespace tandem::tools {
namespace {

constexpr std::int64_t kMaxJsonBytes = std::int64_t{16} << 20;
constexpr std::string_view kMixer = "linear_attn.";

/// w(i) = float(normal(i) * scale + shift).
struct Distribution {
  double scale;
  double shift;
};

Distribution distribution_of(const GeneratedLayer& layer, std::string_view name) {
  if (name == "conv1d.weight") return {0.5, 0};
  if (name == "A_log") return {1, 0.5};
  if (name == "dt_bias") return {1, -1};
  if (name == "norm.weight") return {0.2, 1};
  if (name == "out_proj.weight") return {1 / std::sqrt(static_cast<double>(layer.values())), 0};
  return {1 / std::sqrt(static_cast<double>(layer.hidden)), 0};
}

float generated(const CounterRandom& random, const Distribution& d, std::uint64_t i) {
  return static_cast<float>(random.normal(i) * d.scale + d.shift);
}

float generated_input(const CounterRandom& random, std::uint64_t i) {
  const double u = random.normal(i);
  return static_cast<float>(u * u * u * 0.5);
}

void check_first_values(const GeneratedLayer& layer, const Json& first4, const std::string& where) {
  for (const auto& [name, values] : first4.items()) {
    const CounterRandom random(name, layer.seed);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!values[i].is_number())
        fail(ErrorCode::corrupt, "{}: first4 of {} holds {}, expected numbers", where, name,
             describe(values[i]));
      const float made =
          name == "x" ? generated_input(random, i) : generated(random, distribution_of(layer, name), i);
      if (made != values[i].get<float>()) {
        fail(ErrorCode::corrupt, "{}: first4 of {} is {}, the generator makes {}", where, name,
             values[i].get<float>(), made);
      }
    }
  }
}

ModelConfig config_of(const GeneratedLayer& layer, int layers) {
  ModelConfig config;
  config.model_type = "generated layer";
  config.hidden_size = layer.hidden;
  config.num_hidden_layers = layers;
  config.layer_types.assign(static_cast<std::size_t>(layers), LayerKind::recurrent);
  config.linear_num_key_heads = layer.key_heads;
  config.linear_num_value_heads = layer.value_heads;
  config.linear_key_head_dim = layer.key_dim;
  config.linear_value_head_dim = layer.value_dim;
  config.linear_conv_kernel_dim = layer.conv_kernel;
  config.rms_norm_eps = 1e-6;
  return config;
}

}  // namespace

GeneratedLayer read_generated_layer(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "oracle.json";
  const std::string where = file.string();
  const Json json = read_json_file(file, kMaxJsonBytes);
  constexpr std::int64_t kMaxSize = 1 << 20;
  const auto size = [&](const char* key) { return required_int(json, key, 1, kMaxSize, where); };
  GeneratedLayer layer{folder,     size("H"), size("kh"),    size("kd"), size("vh"), size("vd"),
                       size("ck"), size("T"), size("Tlong"), 0,          {}};
  layer.seed = static_cast<std::uint64_t>(required_int(json, "seed", 0, std::int64_t{1} << 62, where));
  if (layer.value_heads % layer.key_heads != 0 || layer.conv_kernel < 2 || layer.long_tokens < layer.tokens) {
    fail(ErrorCode::invalid_argument, "{}: expected kh to divide vh, ck >= 2 and T <= Tlong", where);
  }
  layer.state_heads =
      optional_ints(json, "S_heads", 0, layer.value_heads - 1, where).value_or(std::vector<std::int64_t>{});
  if (const Json* first4 = find_object(json, "first4", where)) check_first_values(layer, *first4, where);
  return layer;
}

std::shared_ptr<const Model> make_generated_model(const GeneratedLayer& layer, Threads& threads,
                                                  LayerPlace place) {
  const auto source = [&](const Weight& weight) {
    const std::string_view name =
        std::string_view(weight.name).substr(weight.name.find(kMixer) + kMixer.size());
    const CounterRandom random(name, layer.seed);
    const Distribution distribution = distribution_of(layer, name);
    auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(weight.shape.elements()));
    threads.parallel_for(weight.shape.elements(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        (*values)[static_cast<std::size_t>(i)] =
            generated(random, distribution, static_cast<std::uint64_t>(i));
      }
    });
    return HostTensor{ConstTensor(values->data(), DType::f32, weight.shape), values};
  };
  ModelConfig config = config_of(layer, place.layers);
  Graph graph = build_gdn_graph(config, place.index, [](const Weight&) { return Gear::f32; });
  return std::make_shared<const Model>(std::move(config), std::move(graph), source);
}

std::vector<float> generated_inputs(const GeneratedLayer& layer) {
  const CounterRandom random("x", layer.seed);
  std::vector<float> x(static_cast<std::size_t>(layer.long_tokens * layer.hidden));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = generated_input(random, i);
  return x;
}

}  // namespace tandem::tools
