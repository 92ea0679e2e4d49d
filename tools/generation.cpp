#include "tools/generation.hpp"

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "core/arithmetic.hpp"
#include "core/io/mapped_file.hpp"
#include "core/text/stop_strings.hpp"
#include "core/text/stream_decoder.hpp"
#include "tools/escapes.hpp"
#include "tools/file_options.hpp"
#include "tools/observe/observed_session.hpp"
#include "tools/progress.hpp"

namespace tandem::tools {
namespace {

constexpr std::int64_t kMaxPromptBytes = std::int64_t{1} << 30;

/// Text as tokens come; ids outside the tokenizer (a model's embedding has padding rows) and models without
/// one print as <id>. Ends before the first stop string. A special token has no text, so a stop string that
/// is the name of one is found by its id.
class Printer {
 public:
  Printer(const std::optional<Tokenizer>& tokenizer, const OutputOptions& options)
      : tokenizer_(tokenizer), silent_(options.json), stop_(options.stop) {
    if (tokenizer) decoder_.emplace(*tokenizer, true);
    for (const std::string& string : options.stop) {
      if (!tokenizer) fail(ErrorCode::invalid_argument, "--stop needs text, and this model has no tokenizer");
      const std::optional<TokenId> id = tokenizer->id_of(string);
      if (id && tokenizer->is_special(*id)) stop_tokens_.emplace(*id, string);
    }
  }

  /// Of what is continued: no stop string counts here.
  void echo(TokenId id) { show(decoded(id)); }
  void push(TokenId id) {
    show(stop_.push(decoded(id)));
    if (const auto stop = stop_tokens_.find(id); stop_string().empty() && stop != stop_tokens_.end()) {
      found_token_ = stop->second;
    }
  }
  void finish() {
    if (decoder_ && stop_string().empty()) show(stop_.push(decoder_->flush()));
    show(stop_.flush());
  }
  /// The one that was found; empty: none.
  const std::string& stop_string() const { return stop_.found().empty() ? found_token_ : stop_.found(); }
  const std::string& text() const { return text_; }

 private:
  std::string decoded(TokenId id) {
    if (tokenizer_ && tokenizer_->contains(id)) return decoder_->push(id);
    return (decoder_ ? decoder_->flush() : std::string()) + fmt::format("<{}>", id);
  }
  void show(const std::string& piece) {
    text_ += piece;
    if (!silent_ && !piece.empty()) print(piece);
  }

  const std::optional<Tokenizer>& tokenizer_;
  std::optional<StreamDecoder> decoder_;
  bool silent_;
  StopStrings stop_;
  std::map<TokenId, std::string> stop_tokens_;
  std::string found_token_;
  std::string text_;
};

double rate(std::int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

std::int64_t used_state_bytes(const Session& session) {
  std::int64_t bytes = 0;
  for (const StateUsage& usage : session.state().usage()) bytes += usage.used_bytes;
  return bytes;
}

nlohmann::json to_json(const Continuation& what, const Session& session, const Generated& result,
                       const Printer& printer) {
  const auto tokens = std::ssize(what.prompt);
  nlohmann::json model = {{"name", what.model.name()},
                          {"fingerprint", session.model().fingerprint()},
                          {"parameters", session.model().parameters()}};
  nlohmann::json events = nlohmann::json::array();
  for (const ResidencyEvent& event : session.events()) events.push_back(tools::to_json(event));
  if (!what.model.synthetic) model["directory"] = what.model.name();
  nlohmann::json json = {{"arithmetic_version", kArithmeticVersion},
                         {"prompt_ids", what.prompt},
                         {"output_ids", result.ids},
                         {"text", printer.text()},
                         {"stop_reason", name(result.reason)},
                         {"timings",
                          {{"prefill_tokens", tokens},
                           {"prefill_seconds", result.prefill_seconds},
                           {"prefill_tokens_per_second", rate(tokens, result.prefill_seconds)},
                           {"decode_tokens", result.decode_steps},
                           {"decode_seconds", result.decode_seconds},
                           {"decode_tokens_per_second", rate(result.decode_steps, result.decode_seconds)}}},
                         {"placement", session.planned().placement},
                         {"state_bytes", used_state_bytes(session)},
                         {"residency_events", events},
                         {"model", model}};
  if (result.reason == StopReason::stop_string) json["stop_string"] = printer.stop_string();
  if (what.model_defaults != nullptr) json["model_defaults"] = *what.model_defaults;
  return json;
}

void print_summary(const Session& session, bool unsafe, const std::vector<TokenId>& prompt,
                   const Generated& result) {
  const auto tokens = static_cast<std::int64_t>(prompt.size());
  for (const ResidencyEvent& event : session.events()) tell(tools::to_text(event));
  tell(fmt::format(
      "{} + {} tokens ({}); prefill {:.1f} tokens/s, decode {:.1f} tokens/s; placement {}; state {} bytes{}",
      tokens, result.ids.size(), name(result.reason), rate(tokens, result.prefill_seconds),
      rate(result.decode_steps, result.decode_seconds), session.planned().placement,
      used_state_bytes(session),
      unsafe ? "; UNSAFE: it went on without a state once, and the text is wrong" : ""));
}

}  // namespace

void PromptOptions::add(CLI::App& command, bool required) {
  CLI::Option_group* group = command.add_option_group("prompt", "one of");
  prompt_option = group->add_option("-p,--prompt", prompt, "the prompt");
  file_option = uses_file(group->add_option("--prompt-file", file, "a file with the prompt"), FileUse::input);
  ids_option = group->add_option("--ids", ids, "the prompt as token ids: 1,2,3");
  command.add_flag("-e,--escape", escape,
                   "\\n, \\t, \\\\, \\\", \\xHH and \\uXXXX in the prompt mean what they stand for");
  if (required) {
    group->require_option(1);
  } else {
    group->require_option(0, 1);
  }
}

std::vector<TokenId> PromptOptions::read(const std::optional<Tokenizer>& tokenizer) const {
  if (escape && !*prompt_option)
    fail(ErrorCode::invalid_argument, "--escape is for the text of --prompt: give that, or leave it out");
  if (*ids_option) return parse_ids(ids, "--ids");
  if (escape) return tokenizer->encode(unescape(prompt, "--prompt"));
  return tokenizer->encode(*file_option ? read_text_file(file, kMaxPromptBytes) : prompt);
}

void OutputOptions::add(CLI::App& command) {
  command.add_option("-n,--count", count, "new tokens at most")
      ->check(number<std::int64_t>("a whole number >= 0", 0))
      ->capture_default_str();
  command.add_flag("--echo", echo, "print what is continued before its continuation");
  command.add_flag("--ignore-eos", ignore_eos, "go on after an end-of-text token");
  command.add_option("--stop", stop, "end the text before this text; several may be given")
      ->take_all()
      ->allow_extra_args(false)
      ->check(not_empty());
  command.add_flag("--json", json, "print one JSON object instead of text");
}

int print_continuation(Session& session, SequenceId sequence, const Continuation& what,
                       const OutputOptions& options) {
  Printer printer(what.tokenizer, options);
  if (options.echo && !options.json) {
    for (const TokenId id : what.before) printer.echo(id);
    for (const TokenId id : what.prompt) printer.echo(id);
  }
  GenerateOptions generate_options;
  generate_options.max_new_tokens = options.count;
  generate_options.sampling = what.sampling;
  if (!options.ignore_eos) generate_options.stop_ids = session.model().config().eos_token_ids;
  generate_options.on_token = [&](TokenId id) { printer.push(id); };
  generate_options.stopped = [&] { return !printer.stop_string().empty(); };
  generate_options.interrupted = interrupted;
  generate_options.before_step = what.before_step;
  const Generated result = generate(session, sequence, what.prompt, generate_options);
  printer.finish();
  const bool unsafe = session.state().unsafe(sequence);
  if (options.json) {
    nlohmann::json json = to_json(what, session, result, printer);
    json["unsafe"] = unsafe;
    print(json_text(json, 2) + "\n");
  } else {
    print("\n");
    print_summary(session, unsafe, what.prompt, result);
  }
  return result.reason == StopReason::interrupted ? exit_code(ErrorCode::interrupted) : kOk;
}

}  // namespace tandem::tools
