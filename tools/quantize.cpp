#include <nlohmann/json.hpp>

#include "core/arithmetic.hpp"
#include "graph/model/packed_files.hpp"
#include "tools/command.hpp"
#include "tools/file_options.hpp"
#include "tools/gear_table.hpp"
#include "tools/progress.hpp"

namespace tandem::tools {
namespace {

struct QuantizeOptions {
  ModelOptions model;
  std::vector<std::string> directories;  ///< MODEL and OUT, or OUT alone
  bool json = false;
};

struct Written {
  std::string model;
  std::string directory;
  Gears gears;
  std::vector<PackedGroup> groups;

  std::int64_t bytes(std::int64_t PackedGroup::*which) const {
    std::int64_t sum = 0;
    for (const PackedGroup& group : groups) sum += group.*which;
    return sum;
  }
};

nlohmann::json to_json(const Written& written) {
  return {{"arithmetic_version", kArithmeticVersion},
          {"model", written.model},
          {"directory", written.directory},
          {"gear", written.gears.to_text()},
          {"bytes_before", written.bytes(&PackedGroup::bytes_before)},
          {"bytes_after", written.bytes(&PackedGroup::bytes_after)},
          {"groups", tools::to_json(written.groups)}};
}

std::string to_text(const Written& written) {
  return fmt::format("{}{} in {} in {}: {} bytes of weights ({})\n", tools::to_text(written.groups),
                     written.model, written.gears.to_text(), written.directory,
                     written.bytes(&PackedGroup::bytes_after),
                     human_bytes(static_cast<std::uint64_t>(written.bytes(&PackedGroup::bytes_after))));
}

/// Where a model may come from. Another format of files is to be told apart here.
PackSource source_of(const ModelOptions& model) {
  if (model.synthetic) return pack_source(parse_synthetic_spec(*model.synthetic), model.gears);
  if (model.gguf()) {
    fail(ErrorCode::unsupported,
         "'{}' is a GGUF file, expected a Hugging Face directory: other commands take it as it is, with "
         "--gear and "
         "--requantize",
         model.model);
  }
  return pack_source(model.path(), model.gears);
}

int run(QuantizeOptions options) {
  catch_interrupts();
  if (options.directories.size() == 2) options.model.model = options.directories.front();
  if (options.model.synthetic && options.directories.size() == 2) {
    fail(ErrorCode::invalid_argument, "--synthetic and MODEL '{}': both say what to quantise; give one",
         options.model.model);
  }
  Written written{options.model.name(), options.directories.back(), options.model.gears, {}};
  Threads threads(options.model.threads);
  const PackSource source = source_of(options.model);
  {
    Progress progress("quantising weights");
    PackOptions pack;
    pack.progress = [&](std::int64_t done, std::int64_t total) {
      if (interrupted()) fail(ErrorCode::interrupted, "interrupted after {} of {} bytes", done, total);
      progress.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    };
    written.groups = write_packed_model(source, written.gears, written.directory, threads, pack);
  }
  print_report(options.json ? json_text(to_json(written), 2) + "\n" : to_text(written));
  return kOk;
}

}  // namespace

void add_quantize(CLI::App& program, Action& action) {
  const auto options = std::make_shared<QuantizeOptions>();
  CLI::App* command =
      program.add_subcommand("quantize", "Write a model with projections in 4 bits, or in other gears");
  uses_file(
      command->add_option(
          "MODEL OUT", options->directories,
          "the model (default: the shipped tiny model) and the directory to make, which may exist if it "
          "is empty"),
      FileUse::input_then_output)
      ->check(not_empty())
      ->expected(1, 2)
      ->required();
  options->model.add_synthetic(*command);
  options->model.add_gear(*command)->required();
  command
      ->add_option("--threads", options->model.threads, "threads that quantise (0: one for each processor)")
      ->check(number<int>("a whole number"))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON object");
  command->footer(
      "The directory appears when it is complete; every command takes it, and --gear of the original gives "
      "the "
      "same bits.\nExample: tandem quantize DIR /tmp/model --gear q4q8,head=q4");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace tandem::tools
