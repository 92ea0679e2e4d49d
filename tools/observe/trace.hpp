#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "graph/run/step_observer.hpp"
#include "tools/observe/new_text.hpp"
#include "tools/observe/observed_session.hpp"

namespace tandem::tools {

/// A file in Chrome's trace format (the JSON object form), to be opened in Perfetto or chrome://tracing: a
/// process for the host (steps, residency) and one for each backend (layers, transfers, waits for it), with
/// counters of the bytes that crossed. Not thread-safe.
class Trace {
 public:
  /// Throws Error(io), now and whenever it is written to.
  explicit Trace(const std::filesystem::path& path) : text_(path) {}

  void begin(const ObservedSession& session);
  void step(const ObservedStep& step);
  void residency(const ResidencyEvent& event, const TimeSpan& time);
  /// The file appears.
  void end();

 private:
  struct Track {
    int process;
    int thread;
  };
  /// Bytes of activations that left and came to a backend.
  struct Bytes {
    std::int64_t out = 0, in = 0;
  };

  void write(const nlohmann::json& event);
  void write_names(int process, std::string_view name, std::initializer_list<std::string_view> threads);
  void write_span(Track track, std::string_view name, const TimeSpan& time, const nlohmann::json& args);
  void write_run(const ObservedRun& run);
  void write_counters(double at_ms);

  NewText text_;
  ObservedSession session_;
  std::vector<Bytes> bytes_;  ///< by backend
  bool first_ = true;
};

}  // namespace tandem::tools
