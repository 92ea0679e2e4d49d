#include "tests/faults/fault_runs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "backends/cpu/cpu_backend.hpp"
#include "backends/faulty/faulty_backend.hpp"
#include "core/error.hpp"

namespace tandem {
namespace {

constexpr int kAttempts = 4;
constexpr std::size_t kOtherFirst = 100;  ///< of the held-out text: where the second sequence begins

bool may_come_of_a_fault(ErrorCode code) {
  return code == ErrorCode::device_lost || code == ErrorCode::out_of_memory || code == ErrorCode::mismatch ||
         code == ErrorCode::not_resident;
}

class Runner {
 public:
  explicit Runner(const FaultRunOptions& options)
      : options_(options),
        faults_(std::make_shared<Faults>()),
        context_(two_faulty_cpus(faults_)),
        ids_(heldout_ids(kOtherFirst + kRunTokens)) {
    SessionOptions session;
    session.place = options.place;
    session.homes = {"cpu"};
    session.residency = Residency::per_layer;
    session.sequences = 3;
    session.kept_versions = 3;
    session.context_tokens = 64;
    session.mirror_every = options.mirror_every;
    session.verify_transfers = options.verify;
    session.poison = true;
    session.faults = faults_;
    session_ = std::make_unique<Session>(context_, tiny_model(), session);
    if (!options.faults.empty()) faults_->arm(options.faults);
  }

  FaultRun run() {
    const SequenceId sequence = session_->open();
    const bool has_other = options_.place == kStatesOnOther;
    SequenceId other;
    if (has_other) other = open_on_cpu();
    for (std::size_t t = 0; t < kRunTokens; ++t) {
      append(run_.outcome, step_until_done(sequence, ids_[t]));
      if (has_other) append(run_.other, step(other, ids_[kOtherFirst + t]));
    }
    // What is left of the plan must not fall on the reading of results.
    faults_->disarm();
    run_.outcome.layers = all_layers(session_->state(), sequence);
    run_.versions = session_->state().versions(sequence);
    if (has_other) run_.other.layers = all_layers(session_->state(), other);
    const std::deque<ResidencyEvent> events = session_->events();
    run_.events.assign(events.begin(), events.end());
    session_->state().close(sequence);
    if (has_other) session_->state().close(other);
    for (const StateUsage& usage : session_->state().usage()) run_.used_bytes.push_back(usage.used_bytes);
    return std::move(run_);
  }

 private:
  SequenceId open_on_cpu() {
    for (int layer = 2; layer <= 5; ++layer) session_->load(layer, "cpu");
    return session_->state().open({Residency::per_layer, std::vector<int>(8, 0)});
  }

  std::vector<float> step(SequenceId sequence, TokenId id) {
    const SequenceTokens batch[] = {{sequence, std::span(&id, 1), Outputs::last}};
    return session_->step(batch).front();
  }

  std::vector<float> step_until_done(SequenceId sequence, TokenId id) {
    for (int attempt = 1;; ++attempt) {
      const std::vector<VersionInfo> versions = session_->state().versions(sequence);
      try {
        return step(sequence, id);
      } catch (const Error& error) {
        EXPECT_TRUE(may_come_of_a_fault(error.code())) << options_.faults << ": " << error.what();
        EXPECT_EQ(session_->state().versions(sequence), versions) << options_.faults << ": " << error.what();
        run_.errors.emplace_back(error.what());
        if (attempt == kAttempts) throw;
        if (session_->lost("other")) session_->set_policy(sequence, options_.then);
      }
    }
  }

  static void append(Outcome& outcome, const std::vector<float>& logits) {
    outcome.logits.insert(outcome.logits.end(), logits.begin(), logits.end());
  }

  FaultRunOptions options_;
  std::shared_ptr<Faults> faults_;
  Context context_;
  std::vector<TokenId> ids_;
  std::unique_ptr<Session> session_;
  FaultRun run_;
};

}  // namespace

Context two_faulty_cpus(const std::shared_ptr<Faults>& faults) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(
      make_faulty_backend(make_cpu_backend({.name = "cpu", .threads = 1, .variant = ""}), faults));
  backends.push_back(
      make_faulty_backend(make_cpu_backend({.name = "other", .threads = 1, .variant = ""}), faults));
  return Context(std::move(backends));
}

FaultRun run_with_faults(const FaultRunOptions& options) { return Runner(options).run(); }

const FaultRun& undisturbed_run(const std::string& place) {
  static std::map<std::string, FaultRun> made;
  const auto found = made.find(place);
  if (found != made.end()) return found->second;
  return made.emplace(place, run_with_faults({.faults = "", .place = place, .verify = false})).first->second;
}

void expect_undisturbed(const FaultRun& run, const FaultRunOptions& options, bool versions) {
  const FaultRun& expected = undisturbed_run(options.place);
  expect_same(expected.outcome, run.outcome, options.faults);
  expect_same(expected.other, run.other, options.faults + ", the sequence beside it");
  if (versions) {
    EXPECT_EQ(expected.versions, run.versions) << options.faults;
  }
  for (std::int64_t bytes : run.used_bytes) EXPECT_EQ(bytes, 0) << options.faults;
}

}  // namespace tandem
