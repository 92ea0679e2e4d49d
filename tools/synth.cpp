#include "graph/model/synthetic_files.hpp"
#include "tools/command.hpp"
#include "tools/file_options.hpp"
#include "tools/progress.hpp"

namespace tandem::tools {
namespace {

struct SynthOptions {
  SyntheticSpec spec;
  std::string dtype = "bf16";
  std::string directory;
  int threads = 0;
};

int run(const SynthOptions& options) {
  catch_interrupts();
  SyntheticSpec spec = options.spec;
  spec.dtype = options.dtype == "f32" ? DType::f32 : DType::bf16;
  Threads threads(options.threads);
  Progress progress("writing weights");
  SyntheticFilesOptions files;
  files.progress = [&](std::int64_t done, std::int64_t total) {
    if (interrupted()) fail(ErrorCode::interrupted, "interrupted after {} of {} bytes", done, total);
    progress.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
  };
  const std::int64_t bytes = write_synthetic_model(spec, options.directory, threads, files);
  print_report(fmt::format("synthetic {} in {}: {} bytes of weights ({})\n", to_text(spec), options.directory,
                           bytes, human_bytes(static_cast<std::uint64_t>(bytes))));
  return kOk;
}

}  // namespace

void add_synth(CLI::App& program, Action& action) {
  const auto options = std::make_shared<SynthOptions>();
  CLI::App* command =
      program.add_subcommand("synth", "Write a model of random weights at a published model's sizes");
  command->add_option("GEOMETRY", options->spec.geometry, "0.8B, 2B, 4B, 9B or 27B")->required();
  uses_file(
      command->add_option("DIR", options->directory, "the directory to make; it may exist if it is empty"),
      FileUse::output_directory)
      ->check(not_empty())
      ->required();
  command
      ->add_option("--layers", options->spec.layers,
                   "the first N layers only, or more (default: as published)")
      ->check(number<std::int64_t>(fmt::format("a whole number of 1 to {}", kMaxSyntheticLayers), 1,
                                   kMaxSyntheticLayers));
  command->add_option("--vocab", options->spec.vocab, "rows of the embedding (default: as published)")
      ->check(number<std::int64_t>(fmt::format("a whole number of 1 to {}", kMaxSyntheticVocab), 1,
                                   kMaxSyntheticVocab));
  command->add_option("--seed", options->spec.seed, "another seed gives another model")
      ->check(number<std::uint64_t>("a whole number of 0 to 18446744073709551615"))
      ->capture_default_str();
  command->add_option("--dtype", options->dtype, "element type of the weights: bf16 or f32")
      ->check(CLI::IsMember({"bf16", "f32"}))
      ->capture_default_str();
  command
      ->add_option("--threads", options->threads, "threads that make the values (0: one for each processor)")
      ->check(number<int>("a whole number"))
      ->capture_default_str();
  command->footer(
      "The directory appears when it is complete. --synthetic of other commands gives the same model without "
      "files.\nExample: tandem synth 0.8B /tmp/model --layers 4 --vocab 512");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace tandem::tools
