#include "tools/oracle/check.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/arithmetic.hpp"
#include "core/io/mapped_file.hpp"
#include "tools/check_commands.hpp"
#include "tools/file_options.hpp"

namespace tandem::tools {
namespace {

struct CheckOptions {
  ModelOptions model;
  std::string folder;
  std::string json_file;
};

nlohmann::json to_json(const OracleLine& line) {
  return {{"arithmetic_version", kArithmeticVersion},
          {"name", line.name},
          {"elements", line.elements},
          {"max_difference", line.max_difference},
          {"max_value", line.max_value},
          {"max_rel", line.max_rel()},
          {"tolerance", line.tolerance},
          {"ok", line.ok}};
}

int run(const CheckOptions& options) {
  const Context context = options.model.make_context();
  bool first = true;
  OracleReport report([&](const OracleLine& line) {
    if (first) print(header());
    first = false;
    print_report(to_text(line));
  });
  if (is_layer_oracle(options.folder)) {
    check_layer_oracle(options.folder, context, options.model.place, report);
  } else {
    check_model_oracle(options.folder, *options.model.tokenizer(), options.model.open(), context,
                       options.model.place, report);
  }
  const auto bad = std::count_if(report.lines().begin(), report.lines().end(),
                                 [](const OracleLine& line) { return !line.ok; });
  print(fmt::format("{} compared, {} out of tolerance\n", report.lines().size(), bad));
  if (!options.json_file.empty()) {
    nlohmann::json json = nlohmann::json::array();
    for (const OracleLine& line : report.lines()) json.push_back(to_json(line));
    const std::string text = json_text(json, 1) + "\n";
    write_file_atomically(options.json_file, std::as_bytes(std::span(text)));
  }
  return report.ok() ? kOk : kDifferent;
}

}  // namespace

void add_check(CLI::App& program, Action& action) {
  const auto options = std::make_shared<CheckOptions>();
  CLI::App* check =
      program.add_subcommand("check", "Compare with values from elsewhere, or gears with each other");
  check->require_subcommand(1);
  check->footer("Example: tandem check oracle tests/data/oracle/tiny");
  CLI::App* command =
      check->add_subcommand("oracle", "Compare with an oracle folder: a layer's or a model's");
  uses_file(command->add_option("DIR", options->folder, "folder with oracle.json and oracle.safetensors"),
            FileUse::input)
      ->required();
  uses_file(command->add_option(
                "--model", options->model.model,
                "model directory or GGUF file for a model's oracle (default: the shipped tiny model)"),
            FileUse::input)
      ->check(not_empty());
  uses_file(command->add_option("--json", options->json_file, "write all lines to this file"),
            FileUse::output)
      ->check(not_empty());
  options->model.add_gear(*command);
  options->model.add_backends(*command);
  command->footer(
      "Exit code 1 when something is out of tolerance. Example: tandem check oracle tests/data/oracle/tiny");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
  add_check_gears(*check, action);
}

}  // namespace tandem::tools
