#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/text/tokenizer.hpp"
#include "graph/session/generate.hpp"
#include "tools/command.hpp"

namespace tandem::tools {

/// A prompt as one of --prompt, --prompt-file and --ids, and --escape.
struct PromptOptions {
  std::string prompt;
  std::string file;
  std::string ids;
  bool escape = false;
  CLI::Option* prompt_option = nullptr;
  CLI::Option* file_option = nullptr;
  CLI::Option* ids_option = nullptr;

  /// Not `required`: given() may be false, and the command has a prompt of its own.
  void add(CLI::App& command, bool required = true);
  bool given() const { return *prompt_option || *file_option || *ids_option; }
  bool is_text() const { return !*ids_option; }
  /// REQUIRES: a tokenizer, if it is text. Throws Error for a file or ids that cannot be read.
  std::vector<TokenId> read(const std::optional<Tokenizer>& tokenizer) const;
};

/// How a continuation is printed.
struct OutputOptions {
  std::int64_t count = 64;
  bool echo = false;
  bool ignore_eos = false;
  bool json = false;
  std::vector<std::string> stop;  ///< the text ends before the first of them

  void add(CLI::App& command);  ///< --count, --echo, --ignore-eos, --json, --stop
};

/// What is to be continued, and by what.
struct Continuation {
  const ModelOptions& model;
  const std::optional<Tokenizer>& tokenizer;
  std::span<const TokenId> before;  ///< what the sequence has already; printed with --echo
  std::vector<TokenId> prompt;      ///< to be fed first; at least one
  SamplingOptions sampling;
  /// What --model-defaults took, for the JSON object; null: it was not asked for.
  const std::map<std::string, double>* model_defaults = nullptr;
  /// GenerateOptions::before_step; may be left out.
  std::function<void(std::int64_t position, std::int64_t tokens)> before_step = {};
};

/// Continues a sequence and prints text, ids of what has none, and the closing line or JSON object, as
/// `tandem run` does, residency events before the closing line. Returns the exit code. Throws as generate().
int print_continuation(Session& session, SequenceId sequence, const Continuation& what,
                       const OutputOptions& options);

}  // namespace tandem::tools
