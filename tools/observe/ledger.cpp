#include "tools/observe/ledger.hpp"

#include <nlohmann/json.hpp>

#include "core/arithmetic.hpp"
#include "tools/messages.hpp"

namespace tandem::tools {
namespace {

using nlohmann::json;

json layer_or_null(int layer) { return layer == kNoLayer ? json() : json(layer); }

json parts_of(const ObservedSession& session, const ObservedRun& run, std::size_t first, std::size_t end) {
  json parts = json::array();
  for (std::size_t i = first; i < end; ++i) {
    const ObservedPart& part = run.parts[i];
    parts.push_back({{"part", name(part.part)},
                     {"backend", session.backend(part.backend)},
                     {"begin_ms", part.time.begin_ms},
                     {"ms", part.time.ms()}});
  }
  return parts;
}

/// What crossed for these parts of a layer, the sequence's own rows.
json crossings_of(const ObservedSession& session, const ObservedRun& run, const ObservedSequence& sequence,
                  std::size_t first, std::size_t end) {
  json crossings = json::array();
  for (const ObservedTransfer& transfer : run.transfers) {
    for (std::size_t i = first; i < end; ++i) {
      if (transfer.layer != run.parts[i].layer || transfer.part != run.parts[i].part) continue;
      crossings.push_back({{"value", transfer.value},
                           {"part", name(transfer.part)},
                           {"from", session.backend(transfer.from)},
                           {"to", session.backend(transfer.to)},
                           {"bytes", sequence.bytes_of(transfer)},
                           {"receive_ms", transfer.received.ms()},
                           {"send_ms", transfer.sent.ms()}});
    }
  }
  return crossings;
}

json state_of(const ObservedSession& session, const ObservedSequence& sequence, int layer) {
  if (layer == kNoLayer) return {};
  const auto l = static_cast<std::size_t>(layer);
  json state = {{"backend", session.backend(sequence.homes[l])},
                {"read", sequence.version_read},
                {"written", sequence.version_written}};
  if (!sequence.checksums.empty()) state["checksum"] = to_string(sequence.checksums[l]);
  return state;
}

/// Where the parts of one layer end; embedding and head are lines of their own.
std::size_t end_of_layer(const ObservedRun& run, std::size_t first) {
  std::size_t end = first + 1;
  if (run.parts[first].layer == kNoLayer) return end;
  while (end < run.parts.size() && run.parts[end].layer == run.parts[first].layer) ++end;
  return end;
}

}  // namespace

void Ledger::write(const json& line) { text_.write(json_text(line) + "\n"); }

void Ledger::begin(const ObservedSession& session, bool checksums) {
  session_ = session;
  write({{"kind", "header"},
         {"format", "tandem-ledger"},
         {"version", kLedgerVersion},
         {"arithmetic_version", kArithmeticVersion},
         {"model", {{"name", session.model}, {"fingerprint", session.fingerprint}}},
         {"placement", session.placement},
         {"backends", session.backends},
         {"homes", session.homes},
         {"layers", session.layers},
         {"checksums", checksums ? json("xxh3-128") : json()}});
}

void Ledger::write_run(const ObservedStep& step, const ObservedRun& run) {
  std::int64_t run_tokens = 0;
  for (std::size_t s : run.sequences) run_tokens += step.sequences[s].tokens;
  for (std::size_t s : run.sequences) {
    const ObservedSequence& sequence = step.sequences[s];
    for (std::size_t first = 0; first < run.parts.size();) {
      const std::size_t end = end_of_layer(run, first);
      const int layer = run.parts[first].layer;
      const json crossings = crossings_of(session_, run, sequence, first, end);
      std::int64_t bytes = 0;
      for (const json& crossing : crossings) bytes += crossing["bytes"].get<std::int64_t>();
      write({{"kind", "layer"},
             {"step", step.number},
             {"sequence", to_string(sequence.sequence)},
             {"position", sequence.position},
             {"tokens", sequence.tokens},
             {"run_tokens", run_tokens},
             {"layer", layer_or_null(layer)},
             {"parts", parts_of(session_, run, first, end)},
             {"state", state_of(session_, sequence, layer)},
             {"crossings", crossings},
             {"crossed_bytes", bytes}});
      first = end;
    }
  }
}

void Ledger::step(const ObservedStep& step) {
  ++steps_;
  for (const ObservedRun& run : step.runs) write_run(step, run);
}

void Ledger::residency(const ResidencyEvent& event, const TimeSpan& time) {
  ++events_;
  json line = to_json(event);
  line["kind"] = "residency";
  line["begin_ms"] = time.begin_ms;
  write(line);
}

void Ledger::note(SequenceId sequence, std::string_view what) {
  write({{"kind", "note"}, {"sequence", to_string(sequence)}, {"text", what}});
}

void Ledger::end(std::uint64_t crossed_bytes) {
  write(
      {{"kind", "end"}, {"steps", steps_}, {"residency_events", events_}, {"crossed_bytes", crossed_bytes}});
  text_.publish();
}

}  // namespace tandem::tools
