#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/faults/fault_runs.hpp"
#include "tests/share.hpp"

namespace tandem {
namespace {

#ifdef __SANITIZE_ADDRESS__
// Freed memory is kept back for a while, and the process grows by that.
constexpr bool kMemoryIsMeasured = false;
#else
constexpr bool kMemoryIsMeasured = true;
#endif

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST(Cycles, TenThousandLivesLeaveNothingBehind) {
  const Context context = two_faulty_cpus(std::make_shared<Faults>());
  SessionOptions options;
  options.place = kStatesOnOther;
  options.homes = {"cpu"};
  options.sequences = 2;
  options.kept_versions = 2;
  options.context_tokens = 64;
  options.mirror_every = 2;
  options.poison = true;
  Session session(context, tiny_model(), options);
  StateManager& state = session.state();
  const std::vector<TokenId> ids = heldout_ids(4);
  const int cycles = test::share_of(10'000), settled_after = test::share_of(2'000);
  constexpr std::int64_t kMostGrowth = 4 << 20;
  std::int64_t settled = 0;
  for (int cycle = 0; cycle < cycles; ++cycle) {
    if (cycle == settled_after) settled = resident_bytes();
    const SequenceId sequence = session.open(MissPolicy::replay);
    session.feed(sequence, std::span(ids).first(cycle % 3 == 0 ? 2 : 1), Outputs::none);
    const SequenceId fork = session.fork(sequence);
    if (cycle % 4 == 0) session.feed(fork, std::span(ids).subspan(2, 1), Outputs::last);
    state.rollback(fork, state.versions(fork).front().number);
    if (cycle % 2 == 0) state.reset(fork);
    state.close(sequence);
    state.close(fork);
    for (const StateUsage& usage : state.usage()) ASSERT_EQ(usage.used_bytes, 0) << cycle;
  }
  if (kMemoryIsMeasured) {
    EXPECT_LE(resident_bytes() - settled, kMostGrowth);
  }
}

}  // namespace
}  // namespace tandem
