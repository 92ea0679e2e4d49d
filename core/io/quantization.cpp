#include "core/io/quantization.hpp"

#include <nlohmann/json.hpp>
#include <span>

#include "core/error.hpp"
#include "core/io/json.hpp"
#include "core/io/mapped_file.hpp"

namespace tandem {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kQuantMethod = "tandem-raw-q4";
constexpr std::int64_t kQuantVersion = 1;
constexpr std::int64_t kMaxQuantizedConfigBytes = 16 << 20;

constexpr const char* kConfigKey = "quantization_config";
constexpr const char* kMethodMetadata = "quant_method";
constexpr const char* kVersionMetadata = "quant_version";

constexpr const char* kTiedKey = "tie_word_embeddings";

Json read_config(const fs::path& path) {
  const std::string text = read_text_file(path, kMaxQuantizedConfigBytes);
  return parse_json(quote_non_finite(text), path.string());
}

void require_known(std::string_view method, std::string_view version, std::string_view where) {
  if (method != kQuantMethod) {
    fail(ErrorCode::unsupported,
         "{}: quantised by the method {}, expected {} or a model that is not quantised", where, quote(method),
         kQuantMethod);
  }
  if (version != std::to_string(kQuantVersion)) {
    fail(ErrorCode::unsupported, "{}: version {} of {}, expected {}: write the model again", where,
         quote(version), kQuantMethod, kQuantVersion);
  }
}

}  // namespace

std::optional<std::string> load_quantization(const fs::path& directory) {
  const fs::path path = directory / "config.json";
  const Json config = read_config(path);
  const Json* found = find_object(config, kConfigKey, path.string());
  if (found == nullptr) return std::nullopt;
  const std::string where = path.string() + ": " + kConfigKey;
  const std::string method = required_string(*found, "quant_method", where);
  // Of another method nothing else is known.
  if (method != kQuantMethod) require_known(method, "", where);
  const std::int64_t version = required_int(*found, "version", 0, std::int64_t{1} << 31, where);
  require_known(method, std::to_string(version), where);
  return required_string(*found, "gear", where);
}

void write_quantization(const fs::path& directory, std::string_view gears, bool tied) {
  const fs::path path = directory / "config.json";
  Json config = read_config(path);
  if (!tied && config.contains(kTiedKey)) config[kTiedKey] = false;
  if (const auto text = config.find("text_config"); !tied && text != config.end() && text->contains(kTiedKey))
    (*text)[kTiedKey] = false;
  config[kConfigKey] = {{"quant_method", kQuantMethod}, {"version", kQuantVersion}, {"gear", gears}};
  const std::string text = config.dump(2) + "\n";
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

std::map<std::string, std::string> quantization_metadata() {
  return {{kMethodMetadata, std::string(kQuantMethod)}, {kVersionMetadata, std::to_string(kQuantVersion)}};
}

void require_quantization(const std::map<std::string, std::string>& metadata, std::string_view where) {
  const auto text = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  require_known(text(kMethodMetadata), text(kVersionMetadata), where);
}

}  // namespace tandem
