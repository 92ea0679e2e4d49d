#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/fallback/experiment.hpp"
#include "tools/observe/observed_session.hpp"

namespace tandem::tools {

inline constexpr int kFallbackVersion = 1;

/// All that an experiment came to.
struct FallbackReport {
  ObservedSession session;
  std::string stand_in;  ///< what stands in for a device, and why; empty: nothing does
  FallbackSetup setup;
  std::uint64_t seed = 0;
  std::string prompt_text;  ///< and what the model made of it; empty when it has no text
  std::string output_text;
  Undisturbed undisturbed;
  std::vector<PolicyResult> policies;

  /// Whether a policy that must leave no trace left one.
  bool broken() const;
};

/// "same", "DIFFERENT", "refused", "UNSAFE"
std::string verdict(const PolicyResult& result, const FallbackSetup& setup);

/// The table on the terminal.
std::string to_text(const FallbackReport& report);

/// The whole experiment (tools/README.md).
nlohmann::json to_json(const FallbackReport& report);

}  // namespace tandem::tools
