#include "tools/sampling_flags.hpp"

#include <nlohmann/json.hpp>

#include "core/io/json.hpp"
#include "graph/session/sampler.hpp"

namespace tandem::tools {
namespace {

constexpr std::int64_t kMaxConfigBytes = std::int64_t{1} << 20;
constexpr std::int64_t kMostTopK = std::int64_t{1} << 40;

}  // namespace

void SamplingFlags::add(CLI::App& command) {
  const auto add = [&](const char* option, const char* key, auto& value, const char* text) {
    using T = std::remove_reference_t<decltype(value)>;
    const char* expected = std::is_integral_v<T> ? "a whole number" : "a number";
    options_[key] =
        command.add_option(option, value, text)->check(number<T>(expected))->capture_default_str();
  };
  add("--temp", "temperature", values_.temperature, "temperature; 0 takes the best token");
  add("--top-k", "top_k", values_.top_k, "sample from the k best only; 0: no limit");
  add("--top-p", "top_p", values_.top_p, "sample from the best that reach probability p");
  add("--min-p", "min_p", values_.min_p, "sample from those of at least p times the best one's probability");
  add("--repeat-penalty", "repetition_penalty", values_.repeat_penalty,
      "divide the logits of tokens that were there already (multiply negative ones); 1: none");
  add("--presence-penalty", "presence", values_.presence_penalty,
      "subtract from the logits of tokens that were there already");
  add("--frequency-penalty", "frequency", values_.frequency_penalty,
      "subtract from logits, for each time that the token was there");
  add("--repeat-last-n", "window", values_.repeat_last_n,
      "tokens that penalties look back on, prompt included; 0: none, -1: all");
  command.add_option("--seed", values_.seed, "the same seed gives the same text everywhere")
      ->check(number<std::uint64_t>("a whole number of 0 to 18446744073709551615"))
      ->capture_default_str();
  command.add_flag("--model-defaults", model_defaults_,
                   "take what is not given here from the model's generation_config.json");
}

/// A value of the file counts unless the option was given.
template <class T>
void SamplingFlags::take(const char* key, std::optional<T> found, T& value) {
  if (!found || *options_.at(key)) return;
  value = *found;
  taken_[key] = static_cast<double>(*found);
}

/// As in transformers, a file that does not say do_sample asks for the best token, whatever its temperature.
void SamplingFlags::take_defaults(const std::filesystem::path& file) {
  const Json json = read_json_file(file, kMaxConfigBytes);
  file_ = file.string();
  const bool samples = optional_bool(json, "do_sample", file_).value_or(false);
  const auto temperature = optional_double(json, "temperature", file_);
  take("temperature", std::optional(samples ? temperature.value_or(1) : 0), values_.temperature);
  take("top_k", optional_int(json, "top_k", 0, kMostTopK, file_), values_.top_k);
  take("top_p", optional_double(json, "top_p", file_), values_.top_p);
  take("min_p", optional_double(json, "min_p", file_), values_.min_p);
  take("repetition_penalty", optional_double(json, "repetition_penalty", file_), values_.repeat_penalty);
  // transformers' penalty is for all tokens that were there.
  if (taken_.contains("repetition_penalty") && !*options_.at("window")) values_.repeat_last_n = -1;
  try {
    validate(values_);
  } catch (const Error& error) {
    fail(error.code(), "with {}: {}", quote(file_), error.what());
  }
}

SamplingOptions SamplingFlags::read(const ModelOptions& model) {
  validate(values_);
  if (!model_defaults_) return values_;
  if (model.synthetic || !std::filesystem::is_directory(model.path())) {
    fail(ErrorCode::invalid_argument,
         "--model-defaults: expected a model directory with a generation_config.json, found {}; give --temp "
         "and the others instead",
         model.name());
  }
  take_defaults(model.path() / "generation_config.json");
  return values_;
}

std::string SamplingFlags::notice() const {
  if (!model_defaults_) return {};
  std::string text;
  for (const auto& [key, value] : taken_)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, value);
  return fmt::format("sampling from {}: {}", quote(file_), text.empty() ? "nothing" : text);
}

}  // namespace tandem::tools
