#include "graph/model/synthetic.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.hpp"
#include "core/float_environment.hpp"
#include "core/io/geometries.hpp"

namespace tandem {
namespace {

/// Reads "geometry:key=value,..." and says what is wrong with it.
class SpecReader {
 public:
  explicit SpecReader(std::string_view text) : text_(text) {}

  SyntheticSpec read() {
    const std::size_t colon = text_.find(':');
    spec_.geometry = text_.substr(0, colon);
    published_geometry(spec_.geometry);  // throws for an unknown one
    if (colon == text_.npos) return spec_;
    std::string_view rest = text_.substr(colon + 1);
    for (bool more = true; more;) {
      const std::size_t comma = rest.find(',');
      set(rest.substr(0, comma));
      more = comma != rest.npos;
      if (more) rest.remove_prefix(comma + 1);
    }
    return spec_;
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::invalid_argument, "synthetic model '{}': {}", text_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  void set(std::string_view pair) {
    const std::size_t equals = pair.find('=');
    const std::string_view key = pair.substr(0, equals);
    const std::string_view value = equals == pair.npos ? "" : pair.substr(equals + 1);
    if (equals == pair.npos || std::ranges::find(kKeys, key) == std::end(kKeys)) {
      refuse("expected KEY=VALUE with one of the keys {}, found '{}'", fmt::join(kKeys, ", "), pair);
    }
    if (std::ranges::find(seen_, key) != seen_.end()) refuse("{} is given twice", key);
    seen_.push_back(key);
    if (key == "layers") spec_.layers = number<std::int64_t>(key, value, 1, kMaxSyntheticLayers);
    if (key == "vocab") spec_.vocab = number<std::int64_t>(key, value, 1, kMaxSyntheticVocab);
    if (key == "seed") spec_.seed = number<std::uint64_t>(key, value, 0, ~std::uint64_t{0});
    if (key == "dtype") spec_.dtype = type(value);
  }

  template <class T>
  T number(std::string_view key, std::string_view value, T least, T most) const {
    T result{};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size() || result < least || result > most) {
      refuse("{}: expected a whole number of {} to {}, found '{}'", key, least, most, value);
    }
    return result;
  }

  DType type(std::string_view value) const {
    for (const DType known : {DType::bf16, DType::f32}) {
      if (value == name(known)) return known;
    }
    refuse("dtype: expected bf16 or f32, found '{}'", value);
  }

  static constexpr std::string_view kKeys[] = {"layers", "vocab", "dtype", "seed"};

  std::string_view text_;
  SyntheticSpec spec_;
  std::vector<std::string_view> seen_;
};

struct Distribution {
  float deviation;
  float offset;
};

float inverse_root(std::int64_t n) { return static_cast<float>(1 / std::sqrt(static_cast<double>(n))); }

Distribution distribution_of(const ModelConfig& config, const Weight& weight) {
  const std::string_view name = weight.name;
  if (name.ends_with("linear_attn.conv1d.weight")) return {0.5f, 0};
  if (name.ends_with("linear_attn.A_log")) return {1, 0.5f};
  if (name.ends_with("linear_attn.dt_bias")) return {1, -1};
  if (name.ends_with("linear_attn.norm.weight")) return {0.2f, 1};
  if (weight.kind == WeightKind::vector) return {0.1f, 0};  // norms that multiply by 1 + w
  // As a tied head an embedding of deviation 1 would make its own token the certain next one. The norms make
  // up for a small one.
  if (name == "embed_tokens.weight" && !config.tie_word_embeddings) return {1, 0};
  return {inverse_root(weight.shape[1]), 0};
}

DType stored_type(const SyntheticSpec& spec, std::string_view name) {
  const bool always_f32 = name.ends_with("linear_attn.A_log") || name.ends_with("linear_attn.norm.weight");
  return always_f32 ? DType::f32 : spec.dtype;
}

}  // namespace

SyntheticSpec parse_synthetic_spec(std::string_view text) { return SpecReader(text).read(); }

std::string to_text(const SyntheticSpec& spec) {
  std::vector<std::string> changes;
  if (spec.layers != 0) changes.push_back(fmt::format("layers={}", spec.layers));
  if (spec.vocab != 0) changes.push_back(fmt::format("vocab={}", spec.vocab));
  if (spec.dtype != DType::bf16) changes.push_back(fmt::format("dtype={}", name(spec.dtype)));
  if (spec.seed != 0) changes.push_back(fmt::format("seed={}", spec.seed));
  return fmt::format("{}{}{}", spec.geometry, changes.empty() ? "" : ":", fmt::join(changes, ","));
}

ModelConfig synthetic_config(const SyntheticSpec& spec) {
  constexpr std::int64_t kInterval = 4;
  ModelConfig config = published_geometry(spec.geometry);
  if (spec.layers != 0) {
    config.num_hidden_layers = spec.layers;
    config.layer_types = interleaved_layers(spec.layers, kInterval);
  }
  if (spec.vocab != 0) config.vocab_size = spec.vocab;
  std::erase_if(config.eos_token_ids, [&](std::int64_t id) { return id >= config.vocab_size; });
  return config;
}

RandomTensor synthetic_weight(const SyntheticSpec& spec, const ModelConfig& config, const Weight& weight) {
  const Distribution distribution = distribution_of(config, weight);
  return {stored_type(spec, weight.name), weight.shape, CounterRandom(weight.name, spec.seed),
          distribution.deviation, distribution.offset};
}

GearOf synthetic_gears(const SyntheticSpec& spec, const Gears& asked) {
  asked.require_layers(synthetic_config(spec).num_hidden_layers);
  const Gear stored = spec.dtype == DType::f32 ? Gear::f32 : Gear::bf16;
  return gears_of(asked, [=](const Weight&) { return stored; });
}

WeightData synthetic_data(const SyntheticSpec& spec, const ModelConfig& config, const Weight& weight) {
  RandomTensor values = synthetic_weight(spec, config, weight);
  if (weight.kind == WeightKind::matrix) values.dtype = weight_dtype(weight.gear);
  if (weight.group == Part::head && config.tie_word_embeddings)
    values.random = CounterRandom("embed_tokens.weight", spec.seed);
  return values;
}

std::shared_ptr<const Model> make_synthetic_model(const SyntheticSpec& spec, const Gears& gears) {
  const FloatEnvironment environment;
  ModelConfig config = synthetic_config(spec);
  Graph graph = build_model_graph(config, synthetic_gears(spec, gears));
  const auto source = [&](const Weight& weight) { return synthetic_data(spec, config, weight); };
  return std::make_shared<const Model>(config, std::move(graph), source);
}

}  // namespace tandem
