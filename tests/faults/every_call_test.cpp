#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <thread>

#include "backends/cpu/cpu_backend.hpp"
#include "backends/faulty/faulty_backend.hpp"
#include "core/error.hpp"
#include "graph/session/session.hpp"
#include "state/layer_state.hpp"
#include "tests/graph/device_backend.hpp"
#include "tests/micro_model.hpp"
#include "tests/share.hpp"

/// A fault of every kind at every call of a backend, from the first allocation to the last step: afterwards
/// there are the bits of an undisturbed run, or an Error and nothing has changed.
namespace tandem {
namespace {

constexpr std::size_t kTokens = 6;
constexpr int kAttempts = 4;
constexpr TokenId kText[2][kTokens] = {{3, 60, 17, 17, 42, 5}, {8, 1, 33, 50, 2, 63}};

struct Setting {
  std::string name;
  bool observed = false;
  bool checksums = false;
  std::int64_t mirror_every = 0;
  bool verify = false;
  std::size_t sequences = 1;  ///< in one batch, or in a thread each
  bool threads = false;
};

using Checksums = std::vector<Checksum>;  // by layer

/// What sequences come to: logits by token, and checksums of the state by number of tokens.
struct Expected {
  std::vector<float> logits[kTokens];
  Checksums states[kTokens + 1];
};

Context cpu_and_faulty_device(const std::shared_ptr<Faults>& faults) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(
      make_faulty_backend(make_cpu_backend({.name = "cpu", .threads = 1, .variant = ""}), faults));
  backends.push_back(make_faulty_backend(std::make_unique<DeviceBackend>("other", kPlenty), faults));
  return Context(std::move(backends));
}

/// Every committed token of a sequence is told once, with the checksums of its state.
struct Told final : StepObserver {
  void step(const ObservedStep& step) override {
    for (const ObservedSequence& s : step.sequences) {
      auto& [tokens, checksums] = last[s.sequence.index * 1000 + s.sequence.generation];
      tokens = s.position + s.accepted;
      checksums = s.checksums;
      ++steps[s.sequence.index * 1000 + s.sequence.generation];
    }
  }
  void residency(const ResidencyEvent&, const TimeSpan&) override {}
  bool wants_checksums() const override { return checksums; }

  bool checksums = false;
  std::map<std::int64_t, std::pair<std::int64_t, Checksums>> last;
  std::map<std::int64_t, int> steps;
};

class FaultedRun {
 public:
  FaultedRun(const Setting& setting, const std::vector<Expected>* expected, const std::string& fault)
      : setting_(setting), expected_(expected), fault_(fault), context_(cpu_and_faulty_device(faults_)) {
    if (!fault.empty()) faults_->arm(fault);
    told_.checksums = setting.checksums;
  }

  /// Returns whether the fault has happened.
  bool play() {
    if (make_session()) play_script();
    const bool happened = faults_->armed() == 0;
    faults_->disarm();
    if (session_) check_end();
    return happened;
  }

  std::vector<Expected> made;
  bool wrong = false;

 private:
  bool make_session() {
    for (int attempt = 1; attempt <= kAttempts; ++attempt) {
      try {
        SessionOptions options;
        options.place = "cpu,other:1-2";
        options.homes = {"cpu"};
        options.residency = Residency::per_layer;
        options.sequences = 3;
        options.kept_versions = 2;
        options.context_tokens = 16;
        options.limits = {8, 8};
        options.mirror_every = setting_.mirror_every;
        options.verify_transfers = setting_.verify;
        options.faults = faults_;
        session_ = std::make_unique<Session>(context_, micro_model(), options);
        if (setting_.observed) session_->observe(&told_);
        for (std::size_t i = 0; i < setting_.sequences; ++i)
          sequences_.push_back(session_->open(MissPolicy::replay));
        return true;
      } catch (const Error&) {
        session_.reset();
        sequences_.clear();
      }
    }
    return false;
  }

  void play_script() {
    made.resize(setting_.sequences);
    for (std::size_t i = 0; i < setting_.sequences && expected_ == nullptr; ++i)
      made[i].states[0] = checksums_of(i);
    if (!setting_.threads) return play_together();
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < setting_.sequences; ++i) {
      threads.emplace_back([this, i] {
        for (std::size_t t = 0; t < kTokens && take(t, i, 1); ++t) {
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void play_together() {
    for (std::size_t t = 0; t < kTokens; ++t) {
      if (!take(t, 0, setting_.sequences)) return;
      for (std::size_t i = 0; i < setting_.sequences && expected_ == nullptr; ++i)
        made[i].states[t + 1] = checksums_of(i);
    }
  }

  /// The token at t of `count` sequences from the first on; false when that cannot be done.
  bool take(std::size_t t, std::size_t first, std::size_t count) {
    std::vector<SequenceTokens> batch;
    for (std::size_t i = first; i < first + count; ++i) batch.push_back({sequences_[i], {&kText[i][t], 1}});
    for (int attempt = 1; attempt <= kAttempts; ++attempt) {
      const std::vector<std::vector<VersionInfo>> before = versions(first, count);
      try {
        std::vector<std::vector<float>> logits = session_->step(batch);
        for (std::size_t i = 0; i < count; ++i) keep(first + i, t, std::move(logits[i]));
        return true;
      } catch (const Error& error) {
        if (versions(first, count) != before) fail_with(error.what());
        for (std::size_t i = first; i < first + count; ++i) check_state(i, t);
      }
    }
    return false;
  }

  void keep(std::size_t i, std::size_t t, std::vector<float> logits) {
    if (expected_ == nullptr) {
      made[i].logits[t] = std::move(logits);
    } else if ((*expected_)[i].logits[t] != logits) {
      fail_with("other logits of token " + std::to_string(t));
    }
  }

  std::vector<std::vector<VersionInfo>> versions(std::size_t first, std::size_t count) const {
    std::vector<std::vector<VersionInfo>> all;
    for (std::size_t i = first; i < first + count; ++i) all.push_back(session_->versions(sequences_[i]));
    return all;
  }

  Checksums checksums_of(std::size_t i) const {
    Checksums all;
    for (int layer = 0; layer < kMicroLayers; ++layer)
      all.push_back(checksum(session_->layer_state(sequences_[i], layer)));
    return all;
  }

  /// The layers that can still be read are those of `tokens` tokens.
  void check_state(std::size_t i, std::size_t tokens) {
    if (expected_ == nullptr) return;
    for (int layer = 0; layer < kMicroLayers; ++layer) {
      try {
        const Checksum found = checksum(session_->layer_state(sequences_[i], layer));
        if (found != (*expected_)[i].states[tokens][static_cast<std::size_t>(layer)])
          fail_with("layer " + std::to_string(layer) + " of " + std::to_string(tokens) + " tokens differs");
      } catch (const Error& error) {
        // Another thread's fault may fall on this reading, too.
        if (!faults_->lost("cpu") && !faults_->lost("other") && !setting_.threads) fail_with(error.what());
      }
    }
  }

  void check_end() {
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      const auto tokens = static_cast<std::size_t>(session_->tokens(sequences_[i]));
      check_state(i, tokens);
      if (!setting_.observed) continue;
      const std::int64_t key = sequences_[i].index * 1000 + sequences_[i].generation;
      const auto& [told, checksums] = told_.last[key];
      if (told != static_cast<std::int64_t>(tokens) || told_.steps[key] != static_cast<int>(tokens))
        fail_with("the observer was told of " + std::to_string(told_.steps[key]) + " steps");
      if (setting_.checksums && tokens > 0 && expected_ != nullptr &&
          checksums != (*expected_)[i].states[tokens])
        fail_with("the observer was told other checksums");
    }
    for (const SequenceId& sequence : sequences_) session_->close(sequence);
    for (const StateUsage& usage : session_->state().usage()) {
      if (usage.used_bytes != 0) fail_with("blocks in use at the end");
    }
    session_.reset();
  }

  void fail_with(const std::string& what) {
    wrong = true;
    ADD_FAILURE() << setting_.name << ", " << fault_ << ": " << what;
  }

  const Setting& setting_;
  const std::vector<Expected>* expected_;
  std::string fault_;
  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  Context context_;
  Told told_;
  std::unique_ptr<Session> session_;
  std::vector<SequenceId> sequences_;
};

/// Faults as text, but for the number of the call.
std::vector<std::pair<std::string, std::string>> kinds(bool verify) {
  std::vector<std::pair<std::string, std::string>> all{{"launch@", ""}, {"alloc@", ""}, {"lost@", ""}};
  for (const char* backend : {"cpu/", "other/"}) all.emplace_back(std::string(backend) + "lost@", "");
  for (const char* call : {"upload", "download", "send", "receive", "copy", "record", "wait"})
    all.emplace_back(std::string("fail@") + call + ":", "");
  for (const char* call : {"upload", "download", "send", "receive"}) {
    if (verify) all.emplace_back(std::string("flip@") + call + ":", ":byte=3:bit=6");
    all.emplace_back(std::string("delay@") + call + ":", ":ms=0");
  }
  all.emplace_back("delay@copy:", ":ms=0");
  return all;
}

class EveryCall : public testing::TestWithParam<Setting> {};

TEST_P(EveryCall, SameBitsOrAnErrorAndNothingChanged) {
  const Setting& setting = GetParam();
  Setting plain = setting;
  plain.threads = false;
  plain.mirror_every = 0;
  FaultedRun undisturbed(plain, nullptr, "");
  undisturbed.play();
  const std::vector<Expected> expected = undisturbed.made;
  std::int64_t tried = 0, wrong = 0;
  const auto attempt = [&](const std::string& fault) {
    FaultedRun run(setting, &expected, fault);
    const bool happened = run.play();
    tried += happened ? 1 : 0;
    wrong += run.wrong ? 1 : 0;
    return happened;
  };
  const int stride = test::one_in();  // begins with another call for every kind
  int first = 0;
  for (const auto& [what, how] : kinds(setting.verify)) {
    int number = 1 + first++ % stride;
    while (wrong < 5 && attempt(what + std::to_string(number) + how)) number += stride;
  }
  for (int layer = 0; layer < kMicroLayers; ++layer) {
    for (std::size_t token = 0; token < kTokens; ++token)
      attempt("miss@" + std::to_string(layer) + ":" + std::to_string(token));
  }
  std::printf("%s: %lld faults, %lld wrong\n", setting.name.c_str(), static_cast<long long>(tried),
              static_cast<long long>(wrong));
  testing::Test::RecordProperty("faults", static_cast<int>(tried));
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(tried, 100 / test::one_in());
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryCall,
    testing::Values(Setting{.name = "plain"}, Setting{.name = "mirror", .mirror_every = 2},
                    Setting{.name = "ledger", .observed = true, .mirror_every = 2},
                    Setting{.name = "checksums", .observed = true, .checksums = true, .mirror_every = 2},
                    Setting{.name = "verify", .verify = true},
                    Setting{.name = "batch", .mirror_every = 1, .sequences = 2},
                    Setting{.name = "everything",
                            .observed = true,
                            .checksums = true,
                            .mirror_every = 2,
                            .verify = true,
                            .sequences = 2},
                    Setting{.name = "threads", .sequences = 2, .threads = true},
                    Setting{.name = "mirrored_threads",
                            .observed = true,
                            .checksums = true,
                            .mirror_every = 2,
                            .sequences = 2,
                            .threads = true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem
