#include "tools/observe/trace.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/arithmetic.hpp"
#include "tools/messages.hpp"

namespace tandem::tools {
namespace {

using nlohmann::json;

constexpr int kHost = 0;
constexpr int kSteps = 0, kResidency = 1;               // threads of the host's process
constexpr int kLayers = 0, kTransfers = 1, kWaits = 2;  // threads of a backend's

int process_of(int backend) { return backend + 1; }

/// Whole nanoseconds, so that neighbours stay neighbours however the number is printed.
std::int64_t nanoseconds(double ms) { return std::llround(ms * 1e6); }
double microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1e3; }

std::string part_name(int layer, Part part) {
  return layer == kNoLayer ? std::string(name(part)) : fmt::format("{} {}", layer, name(part));
}

}  // namespace

void Trace::write(const json& event) {
  text_.write(first_ ? "\n" : ",\n");
  first_ = false;
  text_.write(json_text(event));
}

void Trace::write_names(int process, std::string_view name, std::initializer_list<std::string_view> threads) {
  write({{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"tid", 0}, {"args", {{"name", name}}}});
  write({{"ph", "M"},
         {"name", "process_sort_index"},
         {"pid", process},
         {"tid", 0},
         {"args", {{"sort_index", process}}}});
  int thread = 0;
  for (std::string_view of_thread : threads) {
    write({{"ph", "M"},
           {"name", "thread_name"},
           {"pid", process},
           {"tid", thread++},
           {"args", {{"name", of_thread}}}});
  }
}

void Trace::write_span(Track track, std::string_view name, const TimeSpan& time, const json& args) {
  const std::int64_t begin = nanoseconds(time.begin_ms), end = nanoseconds(time.end_ms);
  write({{"ph", "X"},
         {"name", name},
         {"pid", track.process},
         {"tid", track.thread},
         {"ts", microseconds(begin)},
         {"dur", microseconds(end - begin)},
         {"args", args}});
}

void Trace::begin(const ObservedSession& session) {
  session_ = session;
  bytes_.assign(session.backends.size(), {});
  const json other = {{"format", "tandem-trace"},
                      {"version", 1},
                      {"arithmetic_version", kArithmeticVersion},
                      {"model", session.model},
                      {"fingerprint", session.fingerprint},
                      {"placement", session.placement}};
  text_.write(
      fmt::format("{{\"displayTimeUnit\": \"ms\", \"otherData\": {},\n\"traceEvents\": [", json_text(other)));
  write_names(kHost, "host", {"steps", "residency"});
  for (std::size_t b = 0; b < session.backends.size(); ++b) {
    write_names(process_of(static_cast<int>(b)),
                fmt::format("{} ({})", session.backends[b], session.descriptions[b]),
                {"layers", "transfers", "host waits"});
  }
  write_counters(0);
}

void Trace::write_run(const ObservedRun& run) {
  for (const ObservedPart& part : run.parts) {
    write_span({process_of(part.backend), kLayers}, part_name(part.layer, part.part), part.time,
               {{"layer", part.layer == kNoLayer ? json() : json(part.layer)}, {"part", name(part.part)}});
  }
  for (const ObservedTransfer& transfer : run.transfers) {
    const json args = {{"bytes", transfer.bytes},
                       {"from", session_.backend(transfer.from)},
                       {"to", session_.backend(transfer.to)},
                       {"for", part_name(transfer.layer, transfer.part)}};
    write_span({process_of(transfer.from), kTransfers}, "receive " + transfer.value, transfer.received, args);
    write_span({process_of(transfer.to), kTransfers}, "send " + transfer.value, transfer.sent, args);
    bytes_[static_cast<std::size_t>(transfer.from)].out += transfer.bytes;
    bytes_[static_cast<std::size_t>(transfer.to)].in += transfer.bytes;
  }
  for (const ObservedWait& wait : run.waits) {
    write_span({process_of(wait.backend), kWaits}, wait.what, wait.time, json::object());
  }
}

void Trace::write_counters(double at_ms) {
  for (std::size_t b = 0; b < bytes_.size(); ++b) {
    write({{"ph", "C"},
           {"name", "crossed bytes"},
           {"pid", process_of(static_cast<int>(b))},
           {"ts", microseconds(nanoseconds(at_ms))},
           {"args", {{"out", bytes_[b].out}, {"in", bytes_[b].in}}}});
  }
}

void Trace::step(const ObservedStep& step) {
  json sequences = json::array();
  std::int64_t tokens = 0;
  for (const ObservedSequence& sequence : step.sequences) {
    tokens += sequence.tokens;
    sequences.push_back({{"sequence", to_string(sequence.sequence)},
                         {"position", sequence.position},
                         {"tokens", sequence.tokens}});
  }
  write_span({kHost, kSteps}, fmt::format("step {}: {} token{}", step.number, tokens, tokens == 1 ? "" : "s"),
             step.time, {{"sequences", sequences}});
  for (const ObservedRun& run : step.runs) write_run(run);
  write_counters(step.time.end_ms);
}

void Trace::residency(const ResidencyEvent& event, const TimeSpan& time) {
  write_span({kHost, kResidency}, fmt::format("{}: {}", event.what, event.decision), time, to_json(event));
}

void Trace::end() {
  text_.write("\n]}\n");
  text_.publish();
}

}  // namespace tandem::tools
