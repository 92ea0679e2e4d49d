#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/faults.hpp"
#include "tests/properties/model_runs.hpp"

namespace tandem {

/// "cpu" and "other" as in two_cpus(), both under the same faults.
Context two_faulty_cpus(const std::shared_ptr<Faults>& faults);

/// Layers 2 to 5 have their states on "other"; nothing else runs there.
inline constexpr const char* kStatesOnOther = "cpu,other:2-5:gdn,other:2-5:attention";
/// "other" has embedding, head and most layers.
inline constexpr const char* kMostOnOther = "other,cpu:0-1";

inline constexpr std::size_t kRunTokens = 32;

/// What a disturbed run came to.
struct FaultRun {
  Outcome outcome;                       ///< of the sequence under faults, all of its tokens
  std::vector<VersionInfo> versions;     ///< that it keeps
  Outcome other;                         ///< of a sequence beside it that lives on "cpu" alone
  std::vector<std::string> errors;       ///< of steps that were refused
  std::vector<ResidencyEvent> events;    ///< of the session
  std::vector<std::int64_t> used_bytes;  ///< by backend, after all was closed
};

struct FaultRunOptions {
  std::string faults = "";  ///< core/fault_plan.hpp; empty: none
  std::string place = kStatesOnOther;
  std::int64_t mirror_every = 0;
  bool verify = true;
  /// Set after a step was refused for a device that is lost.
  MissPolicy then = MissPolicy::replay;
};

/// Feeds kRunTokens tokens one by one. A step that throws is taken again, up to three times, which expects
/// that every error has one of the codes that faults may come to, and that nothing has changed. Where the
/// placement leaves one a life without "other", a second sequence takes its tokens in between and must not
/// fail.
FaultRun run_with_faults(const FaultRunOptions& options);

/// The same without any faults; made once for each placement.
const FaultRun& undisturbed_run(const std::string& place);

/// Expects the same bits of both sequences, the same versions if `versions`, and that nothing is in use.
void expect_undisturbed(const FaultRun& run, const FaultRunOptions& options, bool versions = true);

}  // namespace tandem
