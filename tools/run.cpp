#include <nlohmann/json.hpp>
#include <optional>

#include "core/io/mapped_file.hpp"
#include "core/text/stream_decoder.hpp"
#include "core/text/tokenizer.hpp"
#include "graph/generate.hpp"
#include "tools/open_session.hpp"
#include "tools/progress.hpp"

namespace tandem::tools {
namespace {

constexpr std::int64_t kMaxPromptBytes = std::int64_t{1} << 30;

struct RunOptions {
  ModelOptions model;
  std::string prompt;
  std::string prompt_file;
  std::string ids;
  CLI::Option* file_option = nullptr;
  CLI::Option* ids_option = nullptr;
  std::int64_t count = 64;
  SamplingOptions sampling;
  bool echo = false;
  bool ignore_eos = false;
  bool json = false;
};

/// A model may come without a tokenizer as long as nobody gives or wants text.
std::optional<Tokenizer> load_tokenizer(const ModelOptions& model, bool needed) {
  if (model.synthetic && needed) {
    fail(ErrorCode::invalid_argument, "a synthetic model has no tokenizer: give the prompt with --ids 1,2,3");
  }
  if (model.synthetic) return std::nullopt;
  const std::filesystem::path file = model.directory() / "tokenizer.json";
  if (!needed && !std::filesystem::exists(file)) return std::nullopt;
  return Tokenizer::load(file);
}

std::vector<TokenId> prompt_ids(const RunOptions& options, const std::optional<Tokenizer>& tokenizer) {
  if (*options.ids_option) return parse_ids(options.ids, "--ids");
  return tokenizer->encode(*options.file_option ? read_text_file(options.prompt_file, kMaxPromptBytes)
                                                : options.prompt);
}

/// Text as tokens come; ids outside the tokenizer (a model's embedding has padding rows) and models without
/// one print as <id>.
class Printer {
 public:
  Printer(const std::optional<Tokenizer>& tokenizer, bool silent) : tokenizer_(tokenizer), silent_(silent) {
    if (tokenizer) decoder_.emplace(*tokenizer, true);
  }

  void push(TokenId id) {
    if (tokenizer_ && tokenizer_->contains(id)) return show(decoder_->push(id));
    if (decoder_) show(decoder_->flush());
    show(fmt::format("<{}>", id));
  }
  void finish() {
    if (decoder_) show(decoder_->flush());
  }
  const std::string& text() const { return text_; }

 private:
  void show(const std::string& piece) {
    text_ += piece;
    if (!silent_ && !piece.empty()) print(piece);
  }

  const std::optional<Tokenizer>& tokenizer_;
  std::optional<StreamDecoder> decoder_;
  bool silent_;
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

nlohmann::json to_json(const RunOptions& options, const Session& session, const std::vector<TokenId>& prompt,
                       const Generated& result, const std::string& text) {
  const auto tokens = static_cast<std::int64_t>(prompt.size());
  nlohmann::json model = {{"name", options.model.name()},
                          {"fingerprint", session.model().fingerprint()},
                          {"parameters", session.model().parameters()}};
  if (!options.model.synthetic) model["directory"] = options.model.directory().string();
  return {{"prompt_ids", prompt},
          {"output_ids", result.ids},
          {"text", text},
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
          {"model", model}};
}

void print_summary(const Session& session, const std::vector<TokenId>& prompt, const Generated& result) {
  const auto tokens = static_cast<std::int64_t>(prompt.size());
  fmt::print(
      stderr,
      "{} + {} tokens ({}); prefill {:.1f} tokens/s, decode {:.1f} tokens/s; placement {}; state {} bytes\n",
      tokens, result.ids.size(), name(result.reason), rate(tokens, result.prefill_seconds),
      rate(result.decode_steps, result.decode_seconds), session.planned().placement,
      used_state_bytes(session));
}

int run(const RunOptions& options) {
  catch_interrupts();
  validate(options.sampling);
  const std::shared_ptr<const Model> model = options.model.open();
  const std::optional<Tokenizer> tokenizer = load_tokenizer(options.model, !*options.ids_option);
  const std::vector<TokenId> prompt = prompt_ids(options, tokenizer);
  const Context context = options.model.make_context();
  SessionOptions session_options;
  session_options.limits.outputs = 1;
  const std::unique_ptr<Session> opened = open_session(options.model, context, model, session_options);
  Session& session = *opened;

  Printer printer(tokenizer, options.json);
  if (options.echo && !options.json) {
    for (TokenId id : prompt) printer.push(id);
  }
  GenerateOptions generate_options;
  generate_options.max_new_tokens = options.count;
  generate_options.sampling = options.sampling;
  if (!options.ignore_eos) generate_options.stop_ids = model->config().eos_token_ids;
  generate_options.on_token = [&](TokenId id) { printer.push(id); };
  generate_options.interrupted = interrupted;
  const Generated result = generate(session, session.open(), prompt, generate_options);
  printer.finish();
  if (options.json) {
    const auto replace = nlohmann::json::error_handler_t::replace;
    print(to_json(options, session, prompt, result, printer.text()).dump(2, ' ', false, replace) + "\n");
  } else {
    print("\n");
    print_summary(session, prompt, result);
  }
  return result.reason == StopReason::interrupted ? exit_code(ErrorCode::interrupted) : kOk;
}

}  // namespace

void add_run(CLI::App& program, Action& action) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = program.add_subcommand("run", "Continue a prompt and stream the text");
  options->model.add_model(*command);
  CLI::Option_group* prompt = command->add_option_group("prompt", "one of");
  prompt->add_option("-p,--prompt", options->prompt, "the prompt");
  options->file_option = prompt->add_option("--prompt-file", options->prompt_file, "a file with the prompt");
  options->ids_option = prompt->add_option("--ids", options->ids, "the prompt as token ids: 1,2,3");
  prompt->require_option(1);
  command->add_option("-n,--count", options->count, "new tokens at most")
      ->check(number<std::int64_t>("a whole number >= 0", 0))
      ->capture_default_str();
  command->add_option("--temp", options->sampling.temperature, "temperature; 0 takes the best token")
      ->check(number<double>("a number"))
      ->capture_default_str();
  command->add_option("--top-k", options->sampling.top_k, "sample from the k best only; 0: no limit")
      ->check(number<std::int64_t>("a whole number"))
      ->capture_default_str();
  command->add_option("--top-p", options->sampling.top_p, "sample from the best that reach probability p")
      ->check(number<double>("a number"))
      ->capture_default_str();
  command->add_option("--seed", options->sampling.seed, "the same seed gives the same text everywhere")
      ->check(number<std::uint64_t>("a whole number of 0 to 18446744073709551615"))
      ->capture_default_str();
  options->model.add_context(*command);
  options->model.add_backends(*command);
  options->model.add_gpu_layers(*command);
  command->add_flag("--echo", options->echo, "print the prompt before its continuation");
  command->add_flag("--ignore-eos", options->ignore_eos, "go on after an end-of-text token");
  command->add_flag("--json", options->json, "print one JSON object instead of text");
  command->footer(
      "Text goes to standard output, the closing line to standard error.\nExample: tandem run -p \"Emma "
      "was\" -n 40");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace tandem::tools
