#include <nlohmann/json.hpp>

#include "core/arithmetic.hpp"
#include "core/io/mapped_file.hpp"
#include "graph/session/generate.hpp"
#include "tools/file_options.hpp"
#include "tools/observe/observation.hpp"
#include "tools/open_session.hpp"
#include "tools/progress.hpp"
#include "tools/text_input.hpp"

namespace tandem::tools {
namespace {

struct ScoreOptions {
  ModelOptions model;
  TextInput input;
  std::int64_t max_tokens = 0;
  std::int64_t chunk = 64;
  std::string json_file;
  ObserveOptions observe;
};

int run(const ScoreOptions& options) {
  catch_interrupts();
  const std::shared_ptr<const Model> model = options.model.open();
  const std::vector<TokenId> ids = options.input.read(options.model, options.max_tokens);
  const std::int64_t room =
      options.model.context > 0 ? options.model.context : model->config().max_position_embeddings;
  if (std::ssize(ids) > room) {
    fail(ErrorCode::invalid_argument,
         "{} tokens to score, the context has room for {}; take fewer with --max-tokens", ids.size(), room);
  }
  Observation observation(options.observe);
  const Context context = options.model.make_context();
  SessionOptions session_options = for_one_sequence();
  session_options.context_tokens =
      options.model.context > 0 ? options.model.context : static_cast<std::int64_t>(ids.size());
  session_options.limits = {options.chunk, options.chunk};
  const std::unique_ptr<Session> opened = open_session(options.model, context, model, session_options);
  Session& session = *opened;
  observation.watch(session, options.model.name());
  Progress progress("scoring");
  const auto show = [&](std::int64_t done) { progress.show(static_cast<std::uint64_t>(done), ids.size()); };
  const Score result = score(session, ids, show, interrupted);
  observation.publish();
  if (!options.json_file.empty()) {
    const nlohmann::json json = {{"arithmetic_version", kArithmeticVersion},
                                 {"model", options.model.name()},
                                 {"tokens", ids.size()},
                                 {"mean_nll", result.mean()},
                                 {"perplexity", result.perplexity()},
                                 {"nll", result.nll}};
    const std::string text = json_text(json) + "\n";
    write_file_atomically(options.json_file, std::as_bytes(std::span(text)));
  }
  print(fmt::format("tokens {}  mean_nll {:.9f}  perplexity {:.6f}\n", ids.size(), result.mean(),
                    result.perplexity()));
  return kOk;
}

}  // namespace

void add_score(CLI::App& program, Action& action) {
  const auto options = std::make_shared<ScoreOptions>();
  CLI::App* command = program.add_subcommand("score", "Perplexity of a text");
  options->model.add_model(*command);
  options->input.add(*command);
  command->add_option("--max-tokens", options->max_tokens, "take the first N tokens only (0: all)")
      ->check(number<std::int64_t>("a whole number >= 0", 0))
      ->capture_default_str();
  command
      ->add_option("--chunk", options->chunk,
                   "tokens that go through the model together; no effect on the result")
      ->check(number<std::int64_t>("a whole number of 1 to 65536", 1, 65536))
      ->capture_default_str();
  uses_file(command->add_option("--json", options->json_file,
                                "write tokens, mean_nll, perplexity and nll[] to this file"),
            FileUse::output)
      ->check(not_empty());
  options->model.add_context(*command);
  options->model.add_backends(*command);
  options->model.add_gpu_layers(*command);
  options->observe.add(*command);
  options->model.add_safety(*command);
  command->footer("Example: tandem score --text book.txt --max-tokens 1024");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace tandem::tools
