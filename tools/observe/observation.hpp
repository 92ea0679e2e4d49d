#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "tools/observe/ledger.hpp"
#include "tools/observe/trace.hpp"

namespace tandem::tools {

/// --ledger, --ledger-checksums, --trace.
struct ObserveOptions {
  std::string ledger_file;
  std::string trace_file;
  bool checksums = false;

  void add(CLI::App& command);
};

/// Writes what was asked for of a session's steps. Files appear when publish() is called, and not before: a
/// run that fails or is interrupted leaves what was there. Not thread-safe.
class Observation final : public StepObserver {
 public:
  /// Throws Error(io) when a file cannot be written there.
  explicit Observation(const ObserveOptions& options);

  /// Watches the session from now on, if anything was asked for. REQUIRES: this outlives it.
  void watch(Session& session, const std::string& model);
  /// A line of the ledger: what the next steps of a sequence are for.
  void note(SequenceId sequence, std::string_view what);
  void publish();

  void step(const ObservedStep& step) override;
  void residency(const ResidencyEvent& event, const TimeSpan& time) override;
  bool wants_checksums() const override { return checksums_; }

 private:
  bool checksums_;
  std::optional<Ledger> ledger_;
  std::optional<Trace> trace_;
  const Session* session_ = nullptr;
  std::uint64_t crossed_before_ = 0;
};

}  // namespace tandem::tools
