#include <exception>
#include <iostream>
#include <sstream>

#include "core/arithmetic.hpp"
#include "core/io/mapped_file.hpp"
#include "tools/command.hpp"
#include "tools/file_options.hpp"
#include "tools/process.hpp"

namespace {

constexpr const char* kExamples = R"(Examples:
  tandem run -p "Emma was" -n 40
  tandem run DIR --prompt-file prompt.txt --temp 0.8 --top-p 0.95 --seed 7
  tandem score DIR --text book.txt --max-tokens 1024 --json score.json
  tandem inspect DIR --kernels
  tandem plan DIR --place auto --gpu-memory 8GiB
  tandem check oracle tests/data/oracle/gdn_small
  tandem synth 0.8B /tmp/model --layers 4 --vocab 512
  tandem quantize DIR /tmp/model --gear q4q8
  tandem state save a.tds -p "Emma was"
  tandem fallback --miss 3@12 --html fallback.html
  tandem bench roundtrip

Exit codes: 0 done, 1 a check found a difference, 2 bad arguments, 3 not found, 4 unsupported, 5 mismatch, 6 corrupt file,
7 out of memory, 8 not resident, 9 device lost, 10 input/output, 70 internal error, 130 interrupted.)";

int report(std::string_view kind, std::string_view message) {
  tandem::tools::tell(fmt::format("tandem: {}: {}", kind, message));
  return tandem::tools::kInternal;
}

int run_program(int argc, char** argv) {
  namespace tools = tandem::tools;
  CLI::App program(
      "Decodes hybrid language models (Gated DeltaNet + full attention) layer by layer, with the same bits "
      "wherever "
      "a layer runs.",
      "tandem");
  program.set_version_flag(
      "--version", fmt::format("tandem {} (arithmetic {})", TANDEM_VERSION, tandem::kArithmeticVersion));
  program.footer(kExamples);
  program.require_subcommand(1);
  tools::Action action;
  tools::add_run(program, action);
  tools::add_score(program, action);
  tools::add_inspect(program, action);
  tools::add_plan(program, action);
  tools::add_check(program, action);
  tools::add_synth(program, action);
  tools::add_quantize(program, action);
  tools::add_state(program, action);
  tools::add_fallback(program, action);
  tools::add_bench(program, action);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    std::ostringstream text;
    const int code = program.exit(wanted, text, std::cerr);
    tools::print(text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> extra = program.remaining();
    const bool no_command = program.get_subcommands().empty() && !extra.empty();
    report("invalid_argument", no_command ? fmt::format("expected run, score, inspect, plan, check, synth, "
                                                        "quantize, state, fallback or bench, found '{}'",
                                                        extra.front())
                                          : error.what());
    tools::tell("Run with --help for more.");
    return tools::exit_code(tandem::ErrorCode::invalid_argument);
  }
  tools::require_separate_files(program);
  const int code = action();
  if (code == tools::kOk || code == tools::kDifferent) tandem::require_mapped_files_unchanged();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  tandem::tools::prepare_process();
  try {
    return run_program(argc, argv);
  } catch (const tandem::Error& error) {
    report(name(error.code()), error.what());
    return tandem::tools::exit_code(error.code());
  } catch (const std::bad_alloc&) {
    report("out_of_memory", "the system has no memory left");
    return tandem::tools::exit_code(tandem::ErrorCode::out_of_memory);
  } catch (const std::exception& error) {
    return report("internal", error.what());
  }
}
