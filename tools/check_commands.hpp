#pragma once

#include "tools/command.hpp"

namespace tandem::tools {

/// The subcommands of `tandem check`.
void add_check_gears(CLI::App& check, Action& action);

}  // namespace tandem::tools
