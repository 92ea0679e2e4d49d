#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/builtin.hpp"
#include "core/error.hpp"
#include "core/text/tokenizer.hpp"
#include "graph/model/gguf_model.hpp"
#include "graph/model/weight_sizes.hpp"
#include "graph/session/session.hpp"
#include "tools/messages.hpp"

namespace tandem::tools {

/// Exit codes, documented in tools/README.md.
inline constexpr int kOk = 0;
inline constexpr int kDifferent = 1;  ///< a check found what it looks for
inline constexpr int kInternal = 70;  ///< a bug of ours
int exit_code(ErrorCode code);

/// A subcommand adds its options to the program and sets `action`, which main runs; its result is the exit
/// code.
using Action = std::function<int()>;
void add_run(CLI::App& program, Action& action);
void add_score(CLI::App& program, Action& action);
void add_inspect(CLI::App& program, Action& action);
void add_plan(CLI::App& program, Action& action);
void add_check(CLI::App& program, Action& action);
void add_synth(CLI::App& program, Action& action);
void add_quantize(CLI::App& program, Action& action);
void add_state(CLI::App& program, Action& action);
void add_fallback(CLI::App& program, Action& action);
void add_bench(CLI::App& program, Action& action);

/// Checks the text of a number option; `expected` says in a message what it must be. CLI11 itself takes ""
/// for 0, lets a number that is too large saturate and makes an unsigned "-1" a very large one.
template <class T>
CLI::Validator number(std::string expected, T least = std::numeric_limits<T>::lowest(),
                      T most = std::numeric_limits<T>::max()) {
  const auto check = [=](const std::string& text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool ok =
        error == std::errc() && end == text.data() + text.size() && !(value < least) && !(value > most);
    return ok ? std::string() : fmt::format("expected {}, got '{}'", expected, text);
  };
  return CLI::Validator(check, "");
}

/// Refuses "", which is what an unset variable of a script becomes.
CLI::Validator not_empty();

/// Token ids separated by commas or blanks. Throws Error(invalid_argument) that begins with `where`.
std::vector<TokenId> parse_ids(std::string_view text, std::string_view where);

/// What stands between separators; an empty part is kept, for whoever refuses it.
std::vector<std::string> split_list(const std::string& text, char separator = ',');

/// Options that several subcommands share.
struct ModelOptions {
  std::string model;                     ///< a Hugging Face directory or GGUF file; empty: the default model
  std::optional<std::string> synthetic;  ///< instead: graph/model/synthetic.hpp
  Gears gears;                           ///< --gear; empty: as stored
  std::string requantize;                ///< --requantize: "q4", or nothing
  std::string place = "cpu";
  int threads = 0;
  std::string isa;  ///< kernel variant to force; empty: TANDEM_CPU_ISA, or the best usable one
  std::int64_t context = 0;
  std::optional<std::int64_t> gpu_layers;  ///< --gpu-layers, instead of `place`
  std::uint64_t gpu_memory = 0;            ///< bytes of a device to use at most; 0: all that is free
  std::int64_t mirror_every = 0;           ///< as the next two: SessionOptions
  bool poison = false;
  bool verify_transfers = false;
  std::shared_ptr<Faults> faults = nullptr;  ///< --faults; null: none

  void add_source(CLI::App& command);             ///< MODEL and --synthetic
  void add_model(CLI::App& command);              ///< these, and --gear
  CLI::Option* add_synthetic(CLI::App& command);  ///< --synthetic alone
  CLI::Option* add_gear(CLI::App& command);       ///< --gear alone
  void add_hardware(CLI::App& command);           ///< --threads, --isa, --gpu-memory
  void add_backends(CLI::App& command);           ///< these, and --place
  void add_gpu_layers(CLI::App& command);  ///< for commands that open their session by open_session.hpp
  void add_context(CLI::App& command);
  void add_safety(
      CLI::App& command);  ///< --mirror-every, --verify-transfers, --poison, and --faults (hidden)
  void add_faults(CLI::App& command);  ///< --faults alone

  /// The model's directory, or its GGUF file. Throws Error(not_found) when there is no default model.
  std::filesystem::path path() const;
  /// The file's header when path() is a GGUF file, else nothing. Throws as GgufModelFile.
  std::optional<GgufModelFile> gguf() const;
  /// What output calls the model: its path, or "synthetic 27B". Throws as path().
  std::string name() const;
  /// Of the model, without its weights.
  ModelConfig config() const;
  /// The graph in its gears, without the weights; of a directory without weights as published in bf16.
  Graph graph() const;
  /// What that graph's weights take where they are loaded, from the headers of files; of a directory without
  /// weights as if in the graph's gears. Throws as weight_sizes.
  WeightSizes sizes(const Graph& graph) const;
  /// Of the model. If none is needed, nothing when it has none or one that cannot be read, which stderr says.
  /// Throws as Tokenizer::load and
  /// Tokenizer::from_gguf, and Error(invalid_argument) for a synthetic model that needs one.
  std::optional<Tokenizer> tokenizer(bool needed = true) const;
  /// Whether the placement can mean a GPU. If not, none is touched.
  bool may_use_gpu() const;
  Context make_context() const;
  Context make_context(bool gpu, bool stand_in = false) const;  ///< backends/builtin.hpp
  /// Opens or makes the model, with a progress line on a terminal. Of a GGUF file, says on standard error
  /// what was dequantised and what is not used.
  std::shared_ptr<const Model> open() const;
};

/// The model that is shipped: beside the installed program, else in the source tree. Empty when there is
/// none.
std::filesystem::path default_model();

/// Whether a model's directory has the files that Checkpoint::open looks for.
bool has_weights(const std::filesystem::path& directory);

}  // namespace tandem::tools
