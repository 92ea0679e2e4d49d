#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "graph/run/step_observer.hpp"
#include "tools/observe/new_text.hpp"
#include "tools/observe/observed_session.hpp"

namespace tandem::tools {

inline constexpr int kLedgerVersion = 1;

/// A file of JSON lines that says of every committed step, sequence and layer what ran where, which version
/// of the state was read and written, and what crossed (the format: tools/README.md). Not thread-safe.
class Ledger {
 public:
  /// Throws Error(io), now and whenever it is written to.
  explicit Ledger(const std::filesystem::path& path) : text_(path) {}

  /// The first line.
  void begin(const ObservedSession& session, bool checksums);
  void step(const ObservedStep& step);
  void residency(const ResidencyEvent& event, const TimeSpan& time);
  /// From here on `sequence` is about something else: a line of its own.
  void note(SequenceId sequence, std::string_view what);
  /// The last line; then the file appears. `crossed_bytes`: of the session since its first line.
  void end(std::uint64_t crossed_bytes);

 private:
  void write(const nlohmann::json& line);
  void write_run(const ObservedStep& step, const ObservedRun& run);

  NewText text_;
  ObservedSession session_;
  std::int64_t steps_ = 0;
  std::int64_t events_ = 0;
};

}  // namespace tandem::tools
