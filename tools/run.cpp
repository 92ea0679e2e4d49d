#include <optional>

#include "tools/fallback/miss_plan.hpp"
#include "tools/generation.hpp"
#include "tools/observe/observation.hpp"
#include "tools/open_session.hpp"
#include "tools/progress.hpp"
#include "tools/residency_options.hpp"
#include "tools/sampling_flags.hpp"

namespace tandem::tools {
namespace {

struct RunOptions {
  ModelOptions model;
  PromptOptions prompt;
  SamplingFlags sampling;
  OutputOptions output;
  ResidencyOptions residency;
  ObserveOptions observe;
};

/// Those that can come: the last of the new tokens is not fed.
std::vector<PlannedMiss> misses_of(const RunOptions& options, const Model& model, std::size_t prompt) {
  const std::int64_t fed =
      static_cast<std::int64_t>(prompt) + std::max<std::int64_t>(options.output.count, 1) - 1;
  return plan_misses(options.residency.misses, 0, static_cast<int>(model.config().num_hidden_layers), fed);
}

int run(RunOptions& options) {
  catch_interrupts();
  const SamplingOptions sampling = options.sampling.read(options.model);
  const std::shared_ptr<const Model> model = options.model.open();
  const std::optional<Tokenizer> tokenizer = options.model.tokenizer(options.prompt.is_text());
  Continuation what{.model = options.model,
                    .tokenizer = tokenizer,
                    .before = {},
                    .prompt = options.prompt.read(tokenizer),
                    .sampling = sampling};
  if (options.sampling.from_model()) {
    what.model_defaults = &options.sampling.taken();
    if (!options.output.json) tell(options.sampling.notice());
  }
  SessionOptions session_options = for_one_sequence();
  session_options.limits.outputs = 1;
  options.residency.apply(session_options);
  Observation observation(options.observe);
  const Context context = make_context(options.model, options.residency.homes);
  const std::unique_ptr<Session> session = open_session(options.model, context, model, session_options);
  const SequenceId sequence = session->open(options.residency.policy);
  MissPlanter planter(*session, misses_of(options, *model, what.prompt.size()),
                      options.residency.policy == MissPolicy::migrate_all);
  if (!options.residency.misses.empty()) {
    what.before_step = [&](std::int64_t position, std::int64_t tokens) {
      planter.before_step(sequence, position, tokens);
    };
  }
  observation.watch(*session, options.model.name());
  const int code = print_continuation(*session, sequence, what, options.output);
  if (code == kOk) observation.publish();
  return code;
}

}  // namespace

void add_run(CLI::App& program, Action& action) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = program.add_subcommand("run", "Continue a prompt and stream the text");
  options->model.add_model(*command);
  options->prompt.add(*command);
  options->output.add(*command);
  options->sampling.add(*command);
  options->model.add_context(*command);
  options->model.add_backends(*command);
  options->model.add_gpu_layers(*command);
  options->residency.add(*command);
  options->observe.add(*command);
  options->model.add_safety(*command);
  command->footer(
      "Text goes to standard output, the closing line to standard error.\nExample: tandem run -p \"Emma "
      "was\" -n 40");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace tandem::tools
