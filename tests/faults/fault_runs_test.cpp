#include "tests/faults/fault_runs.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/random.hpp"
#include "tests/share.hpp"

/// Every kind of fault at every token of a text, and in pairs: the bits are those of an undisturbed run,
/// whether a step had to be taken again or not, and a sequence beside it never notices.
namespace tandem {
namespace {

constexpr const char* kLost = "other/lost@token:{}";

/// Faults that happen once, with the token left out, and whether a step fails for it.
struct Kind {
  const char* fault;
  bool fails;
};
constexpr Kind kKinds[] = {{"other/launch@token:{}", true},
                           {"other/alloc@token:{}", false},  // a step takes no memory
                           {"other/fail@send:token:{}", true},
                           {"other/fail@receive:token:{}", true},
                           {"other/fail@record:token:{}", true},
                           {"other/fail@wait:token:{}", true},
                           {"other/fail@upload:token:{}", true},
                           {"other/flip@send:token:{}:byte=100:bit=3", true},
                           {"other/flip@receive:token:{}:byte=5:bit=7", true},
                           {"other/flip@upload:token:{}:bit=1", true},
                           {"other/flip@download:token:{}:byte=9", true},
                           {"other/delay@send:token:{}:ms=1", false},
                           {"other/delay@receive:token:{}:ms=1", false},
                           {"miss@3:{}", true}};
constexpr std::size_t kKindCount = std::size(kKinds);

std::string at(const char* fault, std::size_t token) { return fmt::format(fmt::runtime(fault), token); }

void append(std::string& faults, const std::string& fault) { faults += (faults.empty() ? "" : ",") + fault; }

class EveryFault : public testing::TestWithParam<std::size_t> {};

/// All in one run: each step begins from a state that faults have been at before.
TEST_P(EveryFault, AtEveryToken) {
  const Kind& kind = kKinds[GetParam()];
  std::size_t combination = GetParam();  // each kind begins with another, so that a share has all of them
  for (const char* place : {kStatesOnOther, kMostOnOther}) {
    FaultRunOptions options{.place = place};
    for (std::size_t token = 0; token < kRunTokens; ++token) append(options.faults, at(kind.fault, token));
    for (std::int64_t mirror_every : {0, 4}) {
      if (!test::taken(combination++ % 4)) continue;
      options.mirror_every = mirror_every;
      const FaultRun run = run_with_faults(options);
      EXPECT_EQ(run.errors.size(), kind.fails ? kRunTokens : 0) << options.faults;
      expect_undisturbed(run, options);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryFault, testing::Range(std::size_t{0}, kKindCount), [](const auto& info) {
  return fmt::format("{}_{}", info.param, test_name(std::string(kKinds[info.param].fault).substr(0, 14)));
});

TEST(FaultRuns, AFaultAloneIsSeenOnce) {
  for (std::size_t k = 0; k < kKindCount; ++k) {
    if (!test::taken(k)) continue;
    const Kind& kind = kKinds[k];
    const FaultRunOptions options{.faults = at(kind.fault, 5)};
    const FaultRun run = run_with_faults(options);
    EXPECT_EQ(run.errors.size(), kind.fails ? 1u : 0u) << options.faults;
    expect_undisturbed(run, options);
  }
}

TEST(FaultRuns, WithoutVerificationAFlippedBitShowsInTheResult) {
  const FaultRunOptions options{.faults = "other/flip@send:token:5:byte=3:bit=6", .verify = false};
  const FaultRun run = run_with_faults(options);
  EXPECT_TRUE(run.errors.empty());
  EXPECT_GT(count_different(undisturbed_run(kStatesOnOther).outcome.logits, run.outcome.logits), 0);
}

TEST(FaultRuns, LostAtEveryTokenWithAMirrorGoesOnWithoutAnError) {
  for (const char* place : {kStatesOnOther, kMostOnOther}) {
    for (std::size_t token = 0; token < kRunTokens; ++token) {
      if (!test::taken(token)) continue;
      const FaultRunOptions options{.faults = at(kLost, token), .place = place, .mirror_every = 4};
      const FaultRun run = run_with_faults(options);
      EXPECT_TRUE(run.errors.empty()) << place << ", " << token << ": " << run.errors.front();
      expect_undisturbed(run, options);
    }
  }
}

TEST(FaultRuns, LostWithoutAMirrorIsRefusedThenReplayed) {
  for (const char* place : {kStatesOnOther, kMostOnOther}) {
    for (std::size_t token = 0; token < kRunTokens; token += 3) {
      if (!test::taken(token / 3)) continue;
      const FaultRunOptions options{.faults = at(kLost, token), .place = place};
      const FaultRun run = run_with_faults(options);
      ASSERT_EQ(run.errors.size(), 1u) << place << ", " << token;
      EXPECT_NE(run.errors[0].find("cannot go on: other is lost"), std::string::npos) << run.errors[0];
      expect_undisturbed(run, options);
    }
  }
}

TEST(FaultRuns, AllPairsOfKindsInOneStep) {
  FaultRunOptions options{.mirror_every = 4};
  std::size_t token = 0, pair = 0;
  const auto run = [&] {
    expect_undisturbed(run_with_faults(options), options);
    options.faults.clear();
    token = 0;
  };
  for (const Kind& first : kKinds) {
    for (const Kind& second : kKinds) {
      if (!test::taken(pair++)) continue;
      append(options.faults, at(first.fault, token) + "," + at(second.fault, token));
      if (++token == kRunTokens) run();
    }
  }
  if (token > 0) run();
}

TEST(FaultRuns, ALossBeforeWithAndAfterEveryKind) {
  std::size_t run = 0;
  for (const Kind& kind : kKinds) {
    for (std::size_t token : {6, 13, 14}) {
      if (!test::taken(run++)) continue;
      const FaultRunOptions options{.faults = at(kLost, 13) + "," + at(kind.fault, token), .mirror_every = 4};
      expect_undisturbed(run_with_faults(options), options);
    }
  }
}

TEST(FaultRuns, RandomPairs) {
  const CounterRandom random("pairs of faults", 11);
  std::uint64_t drawn = 0;
  const auto draw = [&](std::size_t below) { return static_cast<std::size_t>(random.bits(drawn++) % below); };
  const auto fault = [&] {
    const std::size_t kind = draw(kKindCount + 4);  // a loss more often than others
    return at(kind < kKindCount ? kKinds[kind].fault : kLost, draw(kRunTokens));
  };
  for (int run = 0; run < test::share_of(40); ++run) {
    const std::string faults = fault() + "," + fault();
    const FaultRunOptions options{.faults = faults,
                                  .place = draw(3) == 0 ? kMostOnOther : kStatesOnOther,
                                  .mirror_every = static_cast<std::int64_t>(draw(3) * 3)};
    // Without a mirror, or with one that is younger than a kept version, not all versions need come back.
    expect_undisturbed(run_with_faults(options), options, options.mirror_every != 3);
  }
}

}  // namespace
}  // namespace tandem
