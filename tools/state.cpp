#include <nlohmann/json.hpp>
#include <optional>

#include "core/io/new_file.hpp"
#include "graph/session/session_snapshot.hpp"
#include "state/snapshot_diff.hpp"
#include "tools/file_options.hpp"
#include "tools/generation.hpp"
#include "tools/open_session.hpp"
#include "tools/progress.hpp"
#include "tools/sampling_flags.hpp"
#include "tools/state_report.hpp"

namespace tandem::tools {
namespace {

struct StateOptions {
  std::string file;
  std::string other;
  ModelOptions model;
  PromptOptions prompt;
  SamplingFlags sampling;
  OutputOptions output;
  bool json = false;
};

std::unique_ptr<Session> open_session(const StateOptions& options, const Context& context,
                                      const std::shared_ptr<const Model>& model) {
  SessionOptions session_options = for_one_sequence();
  session_options.limits.outputs = 1;
  return open_session(options.model, context, model, session_options);
}

/// The last token of the prompt stays to be fed: whoever continues needs the logits after it.
int save(StateOptions& options) {
  catch_interrupts();
  const SamplingOptions sampling = options.sampling.read(options.model);
  const std::shared_ptr<const Model> model = options.model.open();
  const std::optional<Tokenizer> tokenizer = options.model.tokenizer(options.prompt.is_text());
  const std::vector<TokenId> prompt = options.prompt.read(tokenizer);
  if (prompt.empty()) fail(ErrorCode::invalid_argument, "the prompt is empty: expected at least one token");
  const Context context = options.model.make_context();
  const std::unique_ptr<Session> session = open_session(options, context, model);
  if (std::ssize(prompt) > session->context_tokens()) {
    fail(ErrorCode::invalid_argument,
         "the prompt has {} tokens, the context has room for {}; ask for a larger context", prompt.size(),
         session->context_tokens());
  }
  const SequenceId sequence = session->open();
  // The logits show whether weights or state are damaged; nobody wants them otherwise.
  const std::span<const TokenId> fed = std::span(prompt).first(prompt.size() - 1);
  if (!fed.empty()) require_numbers(session->feed(sequence, fed, Outputs::last, interrupted));
  save_sequence(options.file, *session, sequence, prompt, sampling, [&] {
    if (options.model.faults) options.model.faults->before_rename();
  });
  if (options.sampling.from_model()) tell(options.sampling.notice());
  if (NewFile::is_stream(options.file)) {
    print_report(fmt::format("'{}': written, and not to be read back\n", options.file));
  } else {
    print_report(verified_line(Snapshot::open(options.file)));
  }
  return kOk;
}

int load(StateOptions& options) {
  catch_interrupts();
  const Snapshot snapshot = Snapshot::open(options.file);
  const SamplingOptions sampling = sampling_of(snapshot);
  if (snapshot.pending_ids().empty() && !options.prompt.given()) {
    fail(ErrorCode::invalid_argument,
         "{} has no token that is to be fed next, and the logits after its last one are not in it: add a "
         "prompt, or save it with one token less in its state",
         snapshot.where());
  }
  const std::shared_ptr<const Model> model = options.model.open();
  const std::optional<Tokenizer> tokenizer =
      options.model.tokenizer(options.prompt.given() && options.prompt.is_text());
  const std::span<const TokenId> ids = snapshot.ids(), pending = snapshot.pending_ids();
  const std::vector<TokenId> added = options.prompt.given() || options.prompt.escape
                                         ? options.prompt.read(tokenizer)
                                         : std::vector<TokenId>();
  if (options.prompt.given() && added.empty())
    fail(ErrorCode::invalid_argument, "the prompt is empty: expected at least one token");
  Continuation what{.model = options.model,
                    .tokenizer = tokenizer,
                    .before = ids.first(ids.size() - pending.size()),
                    .prompt = {pending.begin(), pending.end()},
                    .sampling = sampling};
  what.prompt.insert(what.prompt.end(), added.begin(), added.end());
  const Context context = options.model.make_context();
  const std::unique_ptr<Session> session = open_session(options, context, model);
  return print_continuation(*session, load_sequence(*session, snapshot), what, options.output);
}

int info(StateOptions& options) {
  const Snapshot snapshot = Snapshot::open(options.file);
  print_report(options.json ? json_text(info_json(snapshot), 2) + "\n" : info_text(snapshot));
  return kOk;
}

int verify(StateOptions& options) {
  print_report(verified_line(Snapshot::open(options.file)));
  return kOk;
}

int diff(StateOptions& options) {
  const SnapshotDifference difference = compare(Snapshot::open(options.file), Snapshot::open(options.other));
  print_report(options.json ? json_text(diff_json(difference), 2) + "\n" : diff_text(difference));
  return difference.any() ? kDifferent : kOk;
}

using Run = int (*)(StateOptions&);

/// A subcommand of a file; `run` is what it does.
CLI::App* add_command(CLI::App& state, Action& action, const std::shared_ptr<StateOptions>& options, Run run,
                      const char* name, const char* file, const char* description, FileUse use) {
  CLI::App* command = state.add_subcommand(name, description);
  uses_file(command->add_option(file, options->file, "a snapshot file"), use)->required()->check(not_empty());
  command->callback([options, run, &action] { action = [options, run] { return run(*options); }; });
  return command;
}

void add_session(CLI::App& command, ModelOptions& model) {
  model.add_model(command);
  model.add_context(command);
  model.add_backends(command);
  model.add_gpu_layers(command);
}

}  // namespace

void add_state(CLI::App& program, Action& action) {
  CLI::App* state = program.add_subcommand("state", "Sequences in files: save, load, info, verify, diff");
  state->require_subcommand(1);
  state->footer("Example: tandem state save a.tds -p \"Emma was\" && tandem state load a.tds -n 40");
  const auto add = [&](Run run, const char* name, const char* file, const char* description,
                       FileUse use = FileUse::input) {
    const auto options = std::make_shared<StateOptions>();
    return std::pair(add_command(*state, action, options, run, name, file, description, use), options);
  };
  const auto [to_file, saved] =
      add(save, "save", "FILE", "Take in a prompt and save the sequence to a file", FileUse::output);
  add_session(*to_file, saved->model);
  saved->model.add_faults(*to_file);
  saved->prompt.add(*to_file);
  saved->sampling.add(*to_file);
  const auto [from_file, loaded] =
      add(load, "load", "FILE", "Continue a saved sequence, on any placement, as if it had never stopped");
  add_session(*from_file, loaded->model);
  loaded->prompt.add(*from_file, false);
  loaded->output.add(*from_file);
  from_file->footer(
      "A prompt is fed after the saved tokens, as the next turn. Goes on with the sampling and the seed that "
      "were saved. Prints as `tandem run` does.");
  const auto [about, shown] = add(info, "info", "FILE", "What a file holds");
  about->add_flag("--json", shown->json, "print one JSON object");
  const auto verifying = add(verify, "verify", "FILE", "Check every checksum of a file");
  verifying.first->footer("Exit code 6 when the file was changed.");
  const auto [compared, both] = add(diff, "diff", "A", "Compare two files element by element");
  uses_file(compared->add_option("B", both->other, "another one"), FileUse::input)
      ->required()
      ->check(not_empty());
  compared->add_flag("--json", both->json, "print one JSON object");
  compared->footer("Exit code 1 when they differ, 5 when they cannot be compared.");
}

}  // namespace tandem::tools
