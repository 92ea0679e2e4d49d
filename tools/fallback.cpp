#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/fallback/page.hpp"
#include "tools/file_options.hpp"
#include "tools/generation.hpp"
#include "tools/observe/new_text.hpp"
#include "tools/observe/observation.hpp"
#include "tools/open_session.hpp"
#include "tools/progress.hpp"
#include "tools/residency_options.hpp"

namespace tandem::tools {
namespace {

constexpr std::string_view kPrompt = "It is a truth universally acknowledged, that";
constexpr std::string_view kIds = "1,2,3,4,5,6,7,8";
constexpr std::string_view kMiss = "random:3";
constexpr std::string_view kStandardOutput = "-";  // as a file of JSON: instead of the table

struct FallbackOptions {
  ModelOptions model;
  PromptOptions prompt;
  ObserveOptions observe;
  std::vector<std::string> misses{std::string(kMiss)};
  std::uint64_t seed = 0;
  std::vector<MissPolicy> policies{MissPolicy::refuse, MissPolicy::migrate, MissPolicy::migrate_all,
                                   MissPolicy::replay, MissPolicy::unsafe_restart};
  std::vector<std::string> homes;
  std::int64_t tokens = 64;
  std::string json_file, html_file;
};

bool has(const Context& context, std::string_view backend) {
  const std::vector<std::string> names = context.names();
  return std::ranges::find(names, backend) != names.end();
}

struct Homes {
  std::vector<std::string> names;
  std::string stand_in;
};

/// The CPU and the first device, or what stands in for one.
Homes homes_of(const FallbackOptions& options, const Context& context) {
  Homes homes{options.homes, ""};
  if (homes.names.empty()) homes.names = {"cpu", has(context, "cuda:0") ? "cuda:0" : std::string(kStandIn)};
  if (std::ranges::find(homes.names, kStandIn) != homes.names.end()) {
    homes.stand_in = fmt::format("{} is a second CPU backend that stands in for a device", kStandIn);
    for (const AbsentBackend& absent : context.absent())
      homes.stand_in += fmt::format(" ({}: {})", absent.name, absent.reason);
  }
  return homes;
}

/// When nothing was said about where, a device is looked for, and its stand-in is made when there is none.
Context make_context(const FallbackOptions& options) {
  if (!options.homes.empty()) return make_context(options.model, options.homes);
  Context context = options.model.make_context(true);
  if (has(context, "cuda:0")) return context;
  return options.model.make_context(true, true);
}

/// Made before anything runs, so that a file that cannot be is refused at once. Null when there is none.
std::unique_ptr<NewText> new_text(const std::string& path) {
  return path.empty() || path == kStandardOutput ? nullptr : std::make_unique<NewText>(path);
}

void publish(NewText* file, const std::string& text) {
  if (file == nullptr) return;
  file->write(text);
  file->publish();
}

std::string decode(const std::optional<Tokenizer>& tokenizer, std::span<const TokenId> ids) {
  if (!tokenizer) return "";
  std::vector<TokenId> known;
  std::ranges::copy_if(ids, std::back_inserter(known), [&](TokenId id) { return tokenizer->contains(id); });
  return tokenizer->decode(known);
}

std::vector<TokenId> prompt_of(const FallbackOptions& options, const std::optional<Tokenizer>& tokenizer) {
  if (options.prompt.given()) return options.prompt.read(tokenizer);
  return tokenizer ? tokenizer->encode(kPrompt) : parse_ids(kIds, "the default prompt");
}

FallbackSetup setup_of(const FallbackOptions& options, const std::optional<Tokenizer>& tokenizer,
                       const Model& model) {
  FallbackSetup setup;
  setup.prompt = prompt_of(options, tokenizer);
  if (setup.prompt.empty())
    fail(ErrorCode::invalid_argument, "the prompt is empty: expected at least one token");
  setup.new_tokens = options.tokens;
  setup.misses = plan_misses(options.misses, options.seed, static_cast<int>(model.config().num_hidden_layers),
                             setup.fed());
  return setup;
}

SessionOptions session_options_of(const FallbackOptions& options, const FallbackSetup& setup,
                                  const std::vector<std::string>& homes) {
  SessionOptions session;
  session.homes = homes;
  session.residency = Residency::per_layer;
  session.sequences = 2;  // a replay needs another one
  session.context_tokens = options.model.context > 0 ? options.model.context : setup.fed();
  session.limits.outputs = 1;
  if (setup.fed() > session.context_tokens) {
    fail(ErrorCode::invalid_argument,
         "{} tokens to feed, the context has room for {}; take fewer with --tokens", setup.fed(),
         session.context_tokens);
  }
  return session;
}

void run_experiment(Session& session, Observation& observation, const FallbackOptions& options,
                    FallbackReport& report) {
  const auto runs = static_cast<std::int64_t>(1 + 2 * options.policies.size());
  Progress progress("running");
  FallbackWatch watch;
  watch.interrupted = interrupted;
  watch.progress = [&, steps = runs * report.setup.fed()](std::int64_t done) {
    progress.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(steps));
  };
  watch.run_begins = [&](SequenceId sequence, std::string_view what) { observation.note(sequence, what); };
  FallbackExperiment experiment(session, report.setup, watch);
  report.undisturbed = experiment.run_undisturbed();
  for (MissPolicy policy : options.policies)
    report.policies.push_back(experiment.run(policy, report.undisturbed));
}

std::string report_json(const FallbackReport& report) { return json_text(to_json(report), 1) + "\n"; }

int run(const FallbackOptions& options) {
  catch_interrupts();
  const std::shared_ptr<const Model> model = options.model.open();
  const bool needs_text = options.prompt.given() && options.prompt.is_text();
  const std::optional<Tokenizer> tokenizer = options.model.tokenizer(needs_text);
  FallbackReport report;
  report.setup = setup_of(options, tokenizer, *model);
  report.seed = options.seed;
  Observation observation(options.observe);
  const std::unique_ptr<NewText> json = new_text(options.json_file), html = new_text(options.html_file);
  const Context context = make_context(options);
  const Homes homes = homes_of(options, context);
  const std::unique_ptr<Session> session =
      open_session(options.model, context, model, session_options_of(options, report.setup, homes.names));
  report.session = describe(*session, options.model.name());
  report.stand_in = homes.stand_in;
  observation.watch(*session, options.model.name());
  run_experiment(*session, observation, options, report);
  const auto prompt = static_cast<std::size_t>(std::ssize(report.setup.prompt));
  report.prompt_text = decode(tokenizer, std::span(report.undisturbed.ids).first(prompt));
  report.output_text = decode(tokenizer, std::span(report.undisturbed.ids).subspan(prompt));
  observation.publish();
  publish(html.get(), to_html(report));
  publish(json.get(), report_json(report));
  print_report(options.json_file == kStandardOutput ? report_json(report) : to_text(report));
  return report.broken() ? kDifferent : kOk;
}

}  // namespace

void add_fallback(CLI::App& program, Action& action) {
  const auto options = std::make_shared<FallbackOptions>();
  CLI::App* command = program.add_subcommand(
      "fallback", "What a miss in the middle of a text does, policy by policy, against the undisturbed text");
  options->model.add_model(*command);
  options->prompt.add(*command, false);
  command->add_option("--tokens", options->tokens, "new tokens, chosen greedily")
      ->check(number<std::int64_t>("a whole number of 1 to 1000000", 1, 1000000))
      ->capture_default_str();
  add_misses(*command, options->misses, true);
  command->add_option("--seed", options->seed, "of the random misses")
      ->check(number<std::uint64_t>("a whole number of 0 to 18446744073709551615"))
      ->capture_default_str();
  add_policies(*command, options->policies);
  add_homes(*command, options->homes);
  uses_file(command->add_option("--json", options->json_file,
                                "write the numbers to this file; -: print them instead"),
            FileUse::output)
      ->check(not_empty());
  uses_file(command->add_option("--html", options->html_file, "write a page with charts to this file"),
            FileUse::output)
      ->check(not_empty());
  options->observe.add(*command);
  options->model.add_context(*command);
  options->model.add_backends(*command);
  options->model.add_gpu_layers(*command);
  command->footer(
      "Exit code 1 when a policy that must leave no trace left one. Without a device a second CPU backend "
      "stands in for it.\nExample: tandem fallback --miss 3@12 --miss 6@40 --html fallback.html");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace tandem::tools
