#pragma once

#include "tools/command.hpp"

namespace tandem::tools {

/// The subcommands of `tandem bench`.
void add_round_trip(CLI::App& bench, Action& action);
void add_migrate(CLI::App& bench, Action& action);

}  // namespace tandem::tools
