#include <nlohmann/json.hpp>

#include "core/io/mapped_file.hpp"
#include "tools/check_commands.hpp"
#include "tools/file_options.hpp"
#include "tools/gears/report.hpp"
#include "tools/open_session.hpp"
#include "tools/progress.hpp"
#include "tools/text_input.hpp"

namespace tandem::tools {
namespace {

constexpr std::int64_t kMostLogitBytes = std::int64_t{16} << 30;
constexpr const char* kUsualGears =
    "f32;bf16;q4;q4q8;gdn=q4;attention=q4;mlp=q4;head=q4;gdn=q4q8,attention=q4q8,mlp=q4q8,head=bf16";

struct GearsOptions {
  ModelOptions model;
  TextInput input;
  std::int64_t tokens = 256;
  std::string gears = kUsualGears;
  bool each_layer = true;
  std::string json_file, html_file;
};

std::vector<TokenId> text_of(const GearsOptions& options) {
  std::vector<TokenId> ids = options.input.read(options.model, options.tokens);
  if (ids.size() < 2)
    fail(ErrorCode::invalid_argument, "{} tokens to compare, expected at least 2", ids.size());
  return ids;
}

/// The whole check: a base in f32, then every gear beside it.
class GearsCheck {
 public:
  explicit GearsCheck(const GearsOptions& options)
      : options_(options), context_(options.model.make_context()), ids_(text_of(options)) {}

  GearsReport run() {
    for (const std::string& gears : split_list(options_.gears, ';'))
      Gears::parse(gears);  // mistakes before the work
    const std::shared_ptr<const Model> base_model = open("f32");
    const std::int64_t bytes = TextBase::bytes(std::ssize(ids_), base_model->config().vocab_size);
    if (bytes > kMostLogitBytes) {
      fail(ErrorCode::invalid_argument,
           "the logits of {} tokens take {}, at most {} are kept: use fewer --tokens", ids_.size(),
           human_bytes(static_cast<std::uint64_t>(bytes)),
           human_bytes(static_cast<std::uint64_t>(kMostLogitBytes)));
    }
    report_.model = options_.model.name();
    report_.fingerprint = base_model->fingerprint();
    report_.place = options_.model.place;
    report_.tokens = std::ssize(ids_);
    {
      const std::unique_ptr<Session> session = open_session(base_model);
      Progress progress("f32");
      base_.emplace(*session, ids_, shown(progress), interrupted);
    }
    for (const std::string& gears : split_list(options_.gears, ';')) report_.texts.push_back(compare(gears));
    for (const auto& [layer, x] : base_->mixer_inputs()) budget(*base_model, layer, x);
    if (options_.each_layer) one_layer_at_a_time(base_model->config().num_hidden_layers);
    return std::move(report_);
  }

 private:
  std::shared_ptr<const Model> open(const std::string& gears) const {
    ModelOptions model = options_.model;
    model.gears = Gears::parse(gears);
    return model.open();
  }
  std::unique_ptr<Session> open_session(const std::shared_ptr<const Model>& model) const {
    SessionOptions session = for_one_sequence();
    session.context_tokens = std::ssize(ids_);
    session.limits = {64, 64};
    return tools::open_session(options_.model, context_, model, session);
  }
  std::function<void(std::int64_t)> shown(Progress& progress) const {
    return [&progress, total = ids_.size()](std::int64_t done) {
      progress.show(static_cast<std::uint64_t>(done), total);
    };
  }
  TextResult compare(const std::string& gears) const {
    const std::unique_ptr<Session> session = open_session(open(gears));
    Progress progress(gears);
    return base_->compare(*session, gears, shown(progress), interrupted);
  }
  void one_layer_at_a_time(std::int64_t layers) {
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      for (const char* gear : {"q4", "q4q8"})
        report_.layer_texts.push_back(compare(fmt::format("layer.{}={}", layer, gear)));
    }
  }
  void budget(const Model& base, int layer, const std::vector<float>& x) {
    const WeightSource source = layer_source(base, layer);
    const std::vector<float> uniform = uniform_like(x, static_cast<std::uint64_t>(layer));
    const auto values = [&](Gear gear, std::span<const float> given) {
      return run_mixer(context_, options_.model.place, one_mixer(base.config(), gear, source), given,
                       interrupted);
    };
    const LayerValues real_f32 = values(Gear::f32, x), uniform_f32 = values(Gear::f32, uniform);
    for (const Gear gear : {Gear::q4, Gear::q4q8}) {
      const LayerValues out_alone = run_mixer(
          context_, options_.model.place, one_mixer(base.config(), gear, source, Projections::out_alone),
          std::span(x).first(static_cast<std::size_t>(base.config().hidden_size)), interrupted);
      LayerBudget budget{layer,
                         gear,
                         operator_errors(real_f32, values(gear, x)),
                         operator_errors(uniform_f32, values(gear, uniform)),
                         {}};
      budget.projections =
          projections_of(budget.real, operator_errors({real_f32.first, real_f32.first}, out_alone));
      report_.layers.push_back(std::move(budget));
    }
  }

  const GearsOptions& options_;
  Context context_;
  std::vector<TokenId> ids_;
  std::optional<TextBase> base_;
  GearsReport report_;
};

void write_report(const std::string& file, const std::string& text) {
  if (!file.empty()) write_file_atomically(file, std::as_bytes(std::span(text)));
}

int run(const GearsOptions& options) {
  catch_interrupts();
  const GearsReport report = GearsCheck(options).run();
  print_report(to_text(report));
  write_report(options.json_file, json_text(to_json(report), 1) + "\n");
  write_report(options.html_file, to_html(report));
  return report.faults().empty() ? kOk : kDifferent;
}

}  // namespace

void add_check_gears(CLI::App& check, Action& action) {
  const auto options = std::make_shared<GearsOptions>();
  CLI::App* command = check.add_subcommand(
      "gears", "What 4-bit weights do to each operator, each layer and a text, beside the same model in f32");
  options->model.add_source(*command);
  options->input.add(*command);
  command->add_option("--tokens", options->tokens, "take the first N tokens")
      ->check(number<std::int64_t>("a whole number of 2 to 1048576", 2, 1 << 20))
      ->capture_default_str();
  command->add_option("--gears", options->gears, "gears to compare, separated by ';'")
      ->check(not_empty())
      ->capture_default_str();
  command->add_flag("!--no-layers", options->each_layer, "leave out the runs with one layer in a gear");
  uses_file(command->add_option("--json", options->json_file, "write everything to this file"),
            FileUse::output)
      ->check(not_empty());
  uses_file(command->add_option("--html", options->html_file, "write a page with charts to this file"),
            FileUse::output)
      ->check(not_empty());
  options->model.add_backends(*command);
  command->footer(
      "Exit code 1 when an operator does not pass the magnitude gate or the probe is not sound.\n"
      "Example: tandem check gears --text book.txt --tokens 512 --html gears.html");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace tandem::tools
