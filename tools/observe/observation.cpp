#include "tools/observe/observation.hpp"

#include "tools/command.hpp"
#include "tools/file_options.hpp"

namespace tandem::tools {
void ObserveOptions::add(CLI::App& command) {
  CLI::Option* ledger =
      command
          .add_option("--ledger", ledger_file,
                      "write what every layer of every step did to this file, one JSON object a line")
          ->check(not_empty());
  uses_file(ledger, FileUse::output);
  command
      .add_flag("--ledger-checksums", checksums,
                "with the XXH3-128 of every state written (each is downloaded)")
      ->needs(ledger);
  uses_file(command.add_option("--trace", trace_file,
                               "write a timeline of layers, transfers and waits to this file, for Perfetto"),
            FileUse::output)
      ->check(not_empty());
}

Observation::Observation(const ObserveOptions& options) : checksums_(options.checksums) {
  if (!options.ledger_file.empty()) ledger_.emplace(options.ledger_file);
  if (!options.trace_file.empty()) trace_.emplace(options.trace_file);
}

void Observation::watch(Session& session, const std::string& model) {
  if (!ledger_ && !trace_) return;
  const ObservedSession described = describe(session, model);
  if (ledger_) ledger_->begin(described, checksums_);
  if (trace_) trace_->begin(described);
  session_ = &session;
  crossed_before_ = session.executor().crossed_bytes();
  session.observe(this);
}

void Observation::note(SequenceId sequence, std::string_view what) {
  if (ledger_) ledger_->note(sequence, what);
}

void Observation::step(const ObservedStep& step) {
  if (ledger_) ledger_->step(step);
  if (trace_) trace_->step(step);
}

void Observation::residency(const ResidencyEvent& event, const TimeSpan& time) {
  if (ledger_) ledger_->residency(event, time);
  if (trace_) trace_->residency(event, time);
}

void Observation::publish() {
  if (ledger_) ledger_->end(session_->executor().crossed_bytes() - crossed_before_);
  if (trace_) trace_->end();
}

}  // namespace tandem::tools
