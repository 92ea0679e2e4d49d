#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/command.hpp"

namespace tandem::tools {

/// --homes; the backends by name.
void add_homes(CLI::App& command, std::vector<std::string>& homes);

/// --miss LAYER@TOKEN, as often as wanted; with `random` random:N too.
void add_misses(CLI::App& command, std::vector<std::string>& misses, bool random);

/// --policy NAME,... or all, in the order given and each once.
void add_policies(CLI::App& command, std::vector<MissPolicy>& policies);

/// The backends that placement and homes mean: devices are looked for when they name one, and backends'
/// kStandIn is made when they name it.
Context make_context(const ModelOptions& model, const std::vector<std::string>& homes);

/// What a single sequence does about misses: --homes, --policy, --miss.
struct ResidencyOptions {
  std::vector<std::string> homes;
  MissPolicy policy = MissPolicy::refuse;
  std::vector<std::string> misses;

  void add(CLI::App& command);
  /// Homes, and room for a replay. Throws Error(invalid_argument) when there is a policy or a miss, and no
  /// homes.
  void apply(SessionOptions& session) const;
};

}  // namespace tandem::tools
