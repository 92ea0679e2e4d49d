#include "core/io/gguf_config.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/io/json.hpp"

namespace tandem {

namespace {

constexpr std::string_view kArchitecture = "qwen35";
constexpr std::int64_t kControlToken = 3;

/// Keys of one architecture.
class GgufKeys {
 public:
  explicit GgufKeys(const GgufFile& file) : file_(file) {}

  std::string where() const { return file_.path().string(); }

  static std::string full(std::string_view key) { return fmt::format("{}.{}", kArchitecture, key); }

  std::int64_t integer(std::string_view key) const { return required(key, file_.integer(full(key))); }
  std::int64_t integer_or(std::string_view key, std::int64_t fallback) const {
    return file_.integer(full(key)).value_or(fallback);
  }
  double number(std::string_view key) const {
    const double value = required(key, file_.number(full(key)));
    if (std::isfinite(value)) return value;
    fail(ErrorCode::invalid_argument, "{}: {}: expected a finite number, found {}", where(), full(key),
         value);
  }

 private:
  template <class T>
  T required(std::string_view key, const std::optional<T>& value) const {
    if (!value) fail(ErrorCode::invalid_argument, "{}: {} is missing, expected a number", where(), full(key));
    return *value;
  }

  const GgufFile& file_;
};

void require_architecture(const GgufFile& file) {
  const auto architecture = file.string("general.architecture");
  if (architecture == kArchitecture) return;
  fail(ErrorCode::unsupported, "{}: general.architecture is {}, known is {} (dense Qwen3.5)",
       file.path().string(), architecture ? quote(*architecture) : "missing", kArchitecture);
}

/// What would be read as the usual model and give plausible nonsense.
void refuse_gguf_variants(const GgufFile& file, const GgufKeys& keys) {
  if (const std::int64_t experts = keys.integer_or("expert_count", 0); experts != 0) {
    fail(ErrorCode::unsupported, "{}: {}: mixture-of-experts layers are not supported, found {}",
         keys.where(), GgufKeys::full("expert_count"), experts);
  }
  if (const std::int64_t parts = file.integer("split.count").value_or(1); parts > 1) {
    fail(ErrorCode::unsupported, "{}: split.count: a model in {} files is not supported: join them",
         keys.where(), parts);
  }
  const std::string scaling = GgufKeys::full("rope.scaling.type");
  if (const auto type = file.string(scaling); type && *type != "none") {
    fail(ErrorCode::unsupported, "{}: {}: only \"none\" is supported, found {}", keys.where(), scaling,
         quote(*type));
  }
}

std::int64_t value_head_dim(const GgufKeys& keys) {
  const std::int64_t inner = keys.integer("ssm.inner_size"), heads = keys.integer("ssm.time_step_rank");
  if (heads <= 0 || inner % heads != 0) {
    fail(ErrorCode::invalid_argument, "{}: {} is {}, expected a multiple of {} ({})", keys.where(),
         GgufKeys::full("ssm.inner_size"), inner, GgufKeys::full("ssm.time_step_rank"), heads);
  }
  return inner / heads;
}

std::int64_t head_dim(const GgufKeys& keys) {
  const std::int64_t key = keys.integer("attention.key_length");
  const std::int64_t value = keys.integer("attention.value_length");
  if (key != value) {
    fail(ErrorCode::unsupported, "{}: {} is {} and {} {}: heads of two sizes are not supported", keys.where(),
         GgufKeys::full("attention.key_length"), key, GgufKeys::full("attention.value_length"), value);
  }
  return key;
}

std::int64_t rotary_dim(const GgufKeys& keys, std::int64_t head) {
  const std::int64_t dim = keys.integer("rope.dimension_count");
  if (dim < 2 || dim % 2 != 0 || dim > head) {
    fail(ErrorCode::invalid_argument, "{}: {}: expected an even number of 2 to {}, found {}", keys.where(),
         GgufKeys::full("rope.dimension_count"), head, dim);
  }
  return dim;
}

/// Layers of the model itself.
std::int64_t trunk_layers(const GgufFile& file, const GgufKeys& keys) {
  const std::int64_t all = keys.integer("block_count"), extra = gguf_extra_layers(file);
  if (extra < 0 || extra >= all) {
    fail(ErrorCode::invalid_argument, "{}: {} is {}, expected less than {} ({})", keys.where(),
         GgufKeys::full("nextn_predict_layers"), extra, GgufKeys::full("block_count"), all);
  }
  return all - extra;
}

/// In the order of their ids. A file of a chat model names <|im_end|>, and the model ends texts with
/// <|endoftext|> all the same.
std::vector<std::int64_t> end_tokens(const GgufFile& file) {
  std::vector<std::int64_t> ids;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (const auto id = file.integer(key)) ids.push_back(*id);
  }
  const auto tokens = file.strings("tokenizer.ggml.tokens");
  const auto types = file.integers("tokenizer.ggml.token_type");
  if (tokens && types) {
    const auto found = std::ranges::find(*tokens, std::string_view("<|endoftext|>"));
    const auto id = static_cast<std::size_t>(found - tokens->begin());
    if (id < std::min(tokens->size(), types->size()) && (*types)[id] == kControlToken) {
      ids.push_back(static_cast<std::int64_t>(id));
    }
  }
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  return ids;
}

/// As in a directory, an equal copy of the embedding is tied, but for quantised types: there a head may be
/// computed in other ways than an embedding.
bool has_own_head(const GgufFile& file) {
  constexpr const char *kHead = "output.weight", *kEmbedding = "token_embd.weight";
  if (!file.contains(kHead)) return false;
  const GgufTensorInfo &head = file.info(kHead), &embedding = file.info(kEmbedding);
  const std::string_view type = head.type == nullptr ? "" : head.type->name;
  if (type != "F32" && type != "F16" && type != "BF16") return true;
  if (head.type != embedding.type || head.dims != embedding.dims) return true;
  return !std::ranges::equal(file.data(kHead), file.data(kEmbedding));
}

/// The same facts under the keys of a config.json, so that one place says what a consistent configuration is.
Json as_config_json(const GgufFile& file, const GgufKeys& keys) {
  Json json = {{"model_type", "qwen3_5_text"},
               {"hidden_size", keys.integer("embedding_length")},
               {"intermediate_size", keys.integer("feed_forward_length")},
               {"num_hidden_layers", trunk_layers(file, keys)},
               {"vocab_size", file.info("token_embd.weight").dims.front()},
               {"max_position_embeddings", keys.integer("context_length")},
               {"linear_num_key_heads", keys.integer("ssm.group_count")},
               {"linear_num_value_heads", keys.integer("ssm.time_step_rank")},
               {"linear_key_head_dim", keys.integer("ssm.state_size")},
               {"linear_value_head_dim", value_head_dim(keys)},
               {"linear_conv_kernel_dim", keys.integer("ssm.conv_kernel")},
               {"num_attention_heads", keys.integer("attention.head_count")},
               {"num_key_value_heads", keys.integer("attention.head_count_kv")},
               {"head_dim", head_dim(keys)},
               {"rope_theta", keys.number("rope.freq_base")},
               {"rms_norm_eps", keys.number("attention.layer_norm_rms_epsilon")},
               {"tie_word_embeddings", !has_own_head(file)},
               {"eos_token_id", end_tokens(file)}};
  const std::string interval = GgufKeys::full("full_attention_interval");
  if (const auto value = file.integer(interval)) json["full_attention_interval"] = *value;
  return json;
}

}  // namespace

std::int64_t gguf_extra_layers(const GgufFile& file) {
  return GgufKeys(file).integer_or("nextn_predict_layers", 0);
}

ModelConfig gguf_model_config(const GgufFile& file) {
  require_architecture(file);
  const GgufKeys keys(file);
  refuse_gguf_variants(file, keys);
  const std::string where = keys.where() + ", as a config.json";
  ModelConfig config = parse_model_config(as_config_json(file, keys).dump(), where);
  config.rotary_dim = rotary_dim(keys, config.head_dim);
  return config;
}

}  // namespace tandem
