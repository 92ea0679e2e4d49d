#include "tools/bench/commands.hpp"
#include "tools/command.hpp"

namespace tandem::tools {

void add_bench(CLI::App& program, Action& action) {
  CLI::App* bench = program.add_subcommand("bench", "Measure parts of the machinery");
  bench->require_subcommand(1);
  bench->footer("Example: tandem bench roundtrip");
  add_round_trip(*bench, action);
  add_migrate(*bench, action);
}

}  // namespace tandem::tools
