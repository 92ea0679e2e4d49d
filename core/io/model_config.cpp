#include "core/io/model_config.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/float_environment.hpp"
#include "core/io/checkpoint.hpp"
#include "core/io/json.hpp"
#include "core/io/mapped_file.hpp"

namespace tandem {

namespace {

namespace fs = std::filesystem;

// An order of magnitude above any published model. A larger number is a damaged file, and would only be found
// out when its memory is asked for.
constexpr std::int64_t kMaxHidden = 1 << 16;
constexpr std::int64_t kMaxIntermediate = 1 << 20;
constexpr std::int64_t kMaxLayers = 1 << 10;
constexpr std::int64_t kMaxVocab = 1 << 22;
constexpr std::int64_t kMaxHeads = 1 << 10;
constexpr std::int64_t kMaxHeadDim = 1 << 10;
constexpr std::int64_t kMaxPositions = 1 << 30;
constexpr std::int64_t kMinConvKernel = 2;
constexpr std::int64_t kMaxConvKernel = 16;
constexpr std::int64_t kMaxConfigBytes = 16 << 20;

// What transformers assumes for a key that is left out (Qwen3_5TextConfig of its version 5.24).
constexpr std::int64_t kDefaultPositions = 32768;
constexpr std::int64_t kDefaultConvKernel = 4;
constexpr std::int64_t kDefaultInterval = 4;
constexpr double kDefaultRotaryFactor = 0.25;
constexpr double kDefaultEps = 1e-6;

/// The object that holds the text model's keys, and how messages call it.
struct Source {
  const Json& json;
  std::string where;

  std::int64_t size(const char* key, std::int64_t max, std::int64_t min = 1) const {
    return required_int(json, key, min, max, where);
  }
  std::int64_t size_or(const char* key, std::int64_t fallback, std::int64_t max, std::int64_t min = 1) const {
    return optional_int(json, key, min, max, where).value_or(fallback);
  }
};

std::string check_model_type(std::string type, const std::string& where) {
  if (type == "qwen3_5" || type == "qwen3_5_text") return type;
  if (type.starts_with("qwen3_5_moe") || type == "qwen3_next") {
    fail(ErrorCode::unsupported, "{}: model_type '{}' has mixture-of-experts layers, which are not supported",
         where, type);
  }
  fail(ErrorCode::unsupported, "{}: unknown model_type {}: known are qwen3_5, qwen3_5_text", where,
       quote(type));
}

/// Refuses variants whose arithmetic is not built: read as the usual one, they would give plausible nonsense.
void refuse_variants(const Source& source) {
  const auto& [json, where] = source;
  if (const auto experts = optional_int(json, "num_experts", 0, 1 << 20, where); experts.value_or(0) > 0) {
    fail(ErrorCode::unsupported, "{}: num_experts: mixture-of-experts layers are not supported, found {}",
         where, *experts);
  }
  if (const auto act = optional_string(json, "hidden_act", where); act && *act != "silu") {
    fail(ErrorCode::unsupported, "{}: hidden_act: only \"silu\" is supported, found {}", where, quote(*act));
  }
  if (const auto gate = optional_string(json, "output_gate_type", where);
      gate && *gate != "swish" && *gate != "silu") {
    fail(ErrorCode::unsupported, "{}: output_gate_type: only \"swish\" and \"silu\" are supported, found {}",
         where, quote(*gate));
  }
  if (optional_bool(json, "attention_bias", where).value_or(false)) {
    fail(ErrorCode::unsupported, "{}: attention_bias: only false is supported, found true", where);
  }
  if (!optional_bool(json, "attn_output_gate", where).value_or(true)) {
    fail(ErrorCode::unsupported, "{}: attn_output_gate: only true is supported, found false", where);
  }
}

/// REQUIRES: divisor > 0.
void check_divides(const Source& source, const char* divisor_key, std::int64_t divisor, const char* key,
                   std::int64_t value) {
  if (value % divisor != 0) {
    fail(ErrorCode::invalid_argument, "{}: {}: expected a multiple of {} ({}), found {}", source.where, key,
         divisor_key, divisor, value);
  }
}

void read_sizes(const Source& source, ModelConfig& config) {
  config.hidden_size = source.size("hidden_size", kMaxHidden);
  config.intermediate_size = source.size("intermediate_size", kMaxIntermediate);
  config.num_hidden_layers = source.size("num_hidden_layers", kMaxLayers);
  config.vocab_size = source.size("vocab_size", kMaxVocab);
  config.max_position_embeddings =
      source.size_or("max_position_embeddings", kDefaultPositions, kMaxPositions);
  config.linear_num_key_heads = source.size("linear_num_key_heads", kMaxHeads);
  config.linear_num_value_heads = source.size("linear_num_value_heads", kMaxHeads);
  config.linear_key_head_dim = source.size("linear_key_head_dim", kMaxHeadDim);
  config.linear_value_head_dim = source.size("linear_value_head_dim", kMaxHeadDim);
  config.linear_conv_kernel_dim =
      source.size_or("linear_conv_kernel_dim", kDefaultConvKernel, kMaxConvKernel, kMinConvKernel);
  config.num_attention_heads = source.size("num_attention_heads", kMaxHeads);
  config.num_key_value_heads = source.size("num_key_value_heads", kMaxHeads);
  config.head_dim = source.size("head_dim", kMaxHeadDim);
  check_divides(source, "linear_num_key_heads", config.linear_num_key_heads, "linear_num_value_heads",
                config.linear_num_value_heads);
  check_divides(source, "num_key_value_heads", config.num_key_value_heads, "num_attention_heads",
                config.num_attention_heads);
}

LayerKind to_layer_type(const Json& value, std::size_t index, const std::string& where) {
  if (value.is_string()) {
    for (const LayerKind type : {LayerKind::recurrent, LayerKind::attention}) {
      if (value.get_ref<const std::string&>() == config_name(type)) return type;
    }
  }
  fail(value.is_string() ? ErrorCode::unsupported : ErrorCode::invalid_argument,
       "{}: layer_types[{}]: expected \"linear_attention\" or \"full_attention\", found {}", where, index,
       describe(value));
}

std::vector<LayerKind> read_layer_types(const Source& source, std::int64_t layers) {
  const auto& [json, where] = source;
  const auto interval = optional_int(json, "full_attention_interval", 1, kMaxLayers, where);
  const Json* list = find_member(json, "layer_types", where);
  if (list == nullptr) return interleaved_layers(layers, interval.value_or(kDefaultInterval));
  if (!list->is_array()) {
    fail(ErrorCode::invalid_argument, "{}: layer_types: expected an array, found {}", where, describe(*list));
  }
  if (std::cmp_not_equal(list->size(), layers)) {
    fail(ErrorCode::corrupt, "{}: layer_types: expected num_hidden_layers ({}) words, found {}", where,
         layers, list->size());
  }
  std::vector<LayerKind> types;
  for (const Json& word : *list) types.push_back(to_layer_type(word, types.size(), where));
  return types;
}

void refuse_rope_type(const Json& rope, const char* key, const std::string& where) {
  if (const auto type = optional_string(rope, key, where); type && *type != "default") {
    fail(ErrorCode::unsupported, "{}: {}: only \"default\" is supported, found {}", where, key, quote(*type));
  }
}

/// Any other key scales the rotation in some way, or does so in a version to come. The sections of images and
/// video (mrope) are those of one position in text.
void refuse_scaling(const Json& rope, std::initializer_list<std::string_view> known,
                    const std::string& where) {
  for (const char* key : {"rope_type", "type"}) refuse_rope_type(rope, key, where);
  for (const auto& [key, value] : rope.items()) {
    const bool harmless = value.is_null() || key == "rope_type" || key == "type" || key == "mrope_section" ||
                          key == "mrope_interleaved";
    if (harmless || std::ranges::find(known, key) != known.end()) continue;
    fail(ErrorCode::unsupported, "{}: {}: scaled rotation is not supported, found {}", where, quote(key),
         describe(value));
  }
}

/// A rope parameter: from the dictionary, or else from beside it, where older files have it.
std::optional<double> rope_number(const Source& source, const Json* rope, const char* key) {
  std::optional<double> number;
  if (rope != nullptr) number = optional_double(*rope, key, source.where + ": rope_parameters");
  if (!number) number = optional_double(source.json, key, source.where);
  return number;
}

void read_rope(const Source& source, ModelConfig& config) {
  const Json* rope = find_object(source.json, "rope_parameters", source.where);
  if (rope != nullptr) {
    refuse_scaling(*rope, {"rope_theta", "partial_rotary_factor"}, source.where + ": rope_parameters");
  }
  // transformers takes it instead of rope_parameters when it is not empty.
  if (const Json* scaling = find_object(source.json, "rope_scaling", source.where)) {
    refuse_scaling(*scaling, {}, source.where + ": rope_scaling");
  }
  const std::optional<double> theta = rope_number(source, rope, "rope_theta");
  if (!theta) {
    fail(ErrorCode::invalid_argument,
         "{}: rope_theta is missing, expected a number above 1 in rope_parameters or beside it",
         source.where);
  }
  config.rope_theta = *theta;
  if (!std::isfinite(config.rope_theta) || config.rope_theta <= 1) {
    fail(ErrorCode::invalid_argument, "{}: rope_theta: expected a number above 1, found {}", source.where,
         config.rope_theta);
  }
  const double factor = rope_number(source, rope, "partial_rotary_factor").value_or(kDefaultRotaryFactor);
  if (!(factor > 0 && factor <= 1)) {
    fail(ErrorCode::invalid_argument,
         "{}: partial_rotary_factor: expected a number above 0 and at most 1, found {}", source.where,
         factor);
  }
  config.rotary_dim = static_cast<std::int64_t>(static_cast<double>(config.head_dim) * factor);
  if (config.rotary_dim < 2 || config.rotary_dim % 2 != 0) {
    fail(ErrorCode::invalid_argument,
         "{}: partial_rotary_factor: {} of head_dim {} gives {} rotated elements, expected an even number "
         "above 0",
         source.where, factor, config.head_dim, config.rotary_dim);
  }
}

double read_eps(const Source& source) {
  const double eps = optional_double(source.json, "rms_norm_eps", source.where).value_or(kDefaultEps);
  if (!(eps > 0 && eps < 1)) {
    fail(ErrorCode::invalid_argument, "{}: rms_norm_eps: expected a number between 0 and 1, found {}",
         source.where, eps);
  }
  return eps;
}

std::optional<std::vector<std::int64_t>> read_eos(const Json& json, std::int64_t vocab,
                                                  std::string_view where) {
  return optional_ints(json, "eos_token_id", 0, vocab - 1, where);
}

/// Those of generation_config.json. Files of other models lie beside weights more often than one would think.
std::optional<std::vector<std::int64_t>> read_generation_eos(const fs::path& path, std::int64_t vocab,
                                                             std::vector<std::string>* notices) {
  const std::string where = path.string();
  const Json json = parse_json(quote_non_finite(read_text_file(path, kMaxConfigBytes)), where);
  const Json* found = find_member(json, "eos_token_id", where);
  if (found == nullptr) return std::nullopt;
  std::vector<std::int64_t> ids;
  for (const Json& id : found->is_array() ? *found : Json::array({*found})) {
    const bool fits = id.is_number_integer() && id >= 0 && id < vocab;
    if (fits) ids.push_back(id.get<std::int64_t>());
    if (fits || notices == nullptr) continue;
    notices->push_back(fmt::format("{}: eos_token_id: expected an integer of 0 to {}, found {}: not used",
                                   where, vocab - 1, describe(id)));
  }
  if (ids.empty() && !(found->is_array() && found->empty())) return std::nullopt;
  return ids;
}

void refuse_adapter(const fs::path& directory) {
  std::error_code ignored;
  if (!fs::exists(directory / "adapter_config.json", ignored)) return;
  fail(ErrorCode::unsupported,
       "'{}' has adapter_config.json: a LoRA adapter, not a model: merge it into its base model "
       "(merge_and_unload in peft) and open what that saves",
       directory.string());
}

}  // namespace

std::string_view config_name(LayerKind kind) {
  switch (kind) {
    case LayerKind::recurrent:
      return "linear_attention";
    case LayerKind::attention:
      return "full_attention";
  }
  return "?";
}

std::int64_t ModelConfig::count(LayerKind type) const { return std::ranges::count(layer_types, type); }

std::vector<LayerKind> interleaved_layers(std::int64_t layers, std::int64_t interval) {
  std::vector<LayerKind> types;
  for (std::int64_t i = 1; i <= layers; ++i) {
    types.push_back(i % interval == 0 ? LayerKind::attention : LayerKind::recurrent);
  }
  return types;
}

ModelConfig parse_model_config(std::string_view json_text, std::string_view where) {
  const FloatEnvironment environment;  // decimals are rounded when they are read
  const std::string outer_where(where);
  const Json outer = parse_json(quote_non_finite(json_text), where);
  ModelConfig config;
  config.model_type = check_model_type(required_string(outer, "model_type", where), outer_where);

  const Json* nested = find_object(outer, "text_config", where);
  const Source text{nested != nullptr ? *nested : outer,
                    outer_where + (nested != nullptr ? ": text_config" : "")};
  if (auto type = optional_string(text.json, "model_type", text.where)) {
    config.model_type = check_model_type(*std::move(type), text.where);
  }
  refuse_variants(text);
  read_sizes(text, config);
  config.layer_types = read_layer_types(text, config.num_hidden_layers);
  read_rope(text, config);
  config.rms_norm_eps = read_eps(text);

  // transformers ties by the outer config, whatever the inner one says.
  auto tied = optional_bool(outer, "tie_word_embeddings", where);
  if (!tied) tied = optional_bool(text.json, "tie_word_embeddings", text.where);
  config.tie_word_embeddings = tied.value_or(false);

  auto eos = read_eos(text.json, config.vocab_size, text.where);
  if (!eos) eos = read_eos(outer, config.vocab_size, where);
  config.eos_token_ids = std::move(eos).value_or(std::vector<std::int64_t>{});
  return config;
}

ModelConfig load_model_config(const fs::path& directory, std::vector<std::string>* notices) {
  require_model_directory(directory);
  refuse_adapter(directory);
  const fs::path path = directory / "config.json";
  ModelConfig config = parse_model_config(read_text_file(path, kMaxConfigBytes), path.string());

  const fs::path generation_path = directory / "generation_config.json";
  std::error_code error;
  if (fs::exists(generation_path, error)) {
    if (auto eos = read_generation_eos(generation_path, config.vocab_size, notices)) {
      config.eos_token_ids = *std::move(eos);
    }
  }
  return config;
}

}  // namespace tandem
