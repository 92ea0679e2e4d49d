#include <optional>

#include "tools/generation.hpp"
#include "tools/open_session.hpp"
#include "tools/progress.hpp"

namespace tandem::tools {
namespace {

struct RunOptions {
  ModelOptions model;
  PromptOptions prompt;
  SamplingOptions sampling;
  OutputOptions output;
};

int run(const RunOptions& options) {
  catch_interrupts();
  validate(options.sampling);
  const std::shared_ptr<const Model> model = options.model.open();
  const std::optional<Tokenizer> tokenizer = load_tokenizer(options.model, options.prompt.is_text());
  const Continuation what{.model = options.model,
                          .tokenizer = tokenizer,
                          .before = {},
                          .prompt = options.prompt.read(tokenizer),
                          .sampling = options.sampling};
  const Context context = options.model.make_context();
  SessionOptions session_options;
  session_options.limits.outputs = 1;
  const std::unique_ptr<Session> session = open_session(options.model, context, model, session_options);
  return print_continuation(*session, session->open(), what, options.output);
}

}  // namespace

void add_run(CLI::App& program, Action& action) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = program.add_subcommand("run", "Continue a prompt and stream the text");
  options->model.add_model(*command);
  options->prompt.add(*command);
  options->output.add(*command);
  add_sampling(*command, options->sampling);
  options->model.add_context(*command);
  options->model.add_backends(*command);
  options->model.add_gpu_layers(*command);
  options->model.add_safety(*command);
  command->footer(
      "Text goes to standard output, the closing line to standard error.\nExample: tandem run -p \"Emma "
      "was\" -n 40");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace tandem::tools
