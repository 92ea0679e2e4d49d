#pragma once

#include <map>
#include <string>

#include "core/sampling_options.hpp"
#include "tools/command.hpp"

namespace tandem::tools {

/// The options about how tokens are chosen, and --model-defaults, which takes them from a model's
/// generation_config.json.
class SamplingFlags {
 public:
  void add(CLI::App& command);

  /// What was asked for: an option that was given wins over the model's file, which wins over the program's
  /// defaults. Throws Error(invalid_argument) for values without meaning; with --model-defaults
  /// Error(not_found) when the model has no such file, Error(invalid_argument) when it cannot have one or its
  /// values have none.
  SamplingOptions read(const ModelOptions& model);

  /// After read(), with --model-defaults: what was taken from the file, by the file's names; else empty.
  const std::map<std::string, double>& taken() const { return taken_; }
  bool from_model() const { return model_defaults_; }
  /// "sampling from '.../generation_config.json': temperature 0.6, top_k 20". Empty without --model-defaults.
  std::string notice() const;

 private:
  template <class T>
  void take(const char* key, std::optional<T> found, T& value);
  void take_defaults(const std::filesystem::path& file);

  SamplingOptions values_;
  bool model_defaults_ = false;
  std::map<std::string, CLI::Option*> options_;  ///< by the name that generation_config.json has for it
  std::map<std::string, double> taken_;
  std::string file_;
};

}  // namespace tandem::tools
