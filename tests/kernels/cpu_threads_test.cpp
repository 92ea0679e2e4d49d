#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cpu/units.hpp"
#include "tests/kernels/cases.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include "tests/kernels/run.hpp"
#include "tests/share.hpp"

/// The number of threads cannot be seen in a result. The sizes are such that every operator is really cut.
namespace tandem::test {
namespace {

/// A projection takes its four forms in turn.
std::uint64_t seeds_of(OpKind kind) { return kind == OpKind::linear ? 4 : share_of(std::uint64_t{2}); }

class CpuThreadsTest : public KernelTest {};

/// Submits an operator that is large enough to be worth a second thread.
SubmitOn submit_cut(int threads) {
  return [threads](Backend& backend, const Op& op) {
    const cpu::Units units = cpu::units_of(op);
    EXPECT_GT(units.count, 2 * cpu::grain_of(units, threads)) << "this size is not cut over threads";
    return backend.submit(op);
  };
}

TEST_P(CpuThreadsTest, AnyNumberGivesTheSameBits) {
  const std::string variant(kernel().variant);
  for (std::uint64_t seed = first_seed(); seed < first_seed() + seeds_of(kernel().op); ++seed) {
    const Case test = make_case(kernel().op, seed, Scale::threads);
    const Image one = run(*candidate_, test);
    for (int threads : {2, 3, 8}) {
      const auto backend = make_cpu(threads, variant);
      const Image many = run(*backend, test, submit_cut(threads));
      ASSERT_THAT(many.variants, testing::ElementsAre(variant));
      const std::string wrong = difference(test, one, many);
      ASSERT_TRUE(wrong.empty()) << variant << ", " << threads << " threads: " << test.text() << '\n'
                                 << wrong;
    }
  }
}

std::unique_ptr<Backend> make() { return make_cpu(1, ""); }

INSTANTIATE_TEST_SUITE_P(Cpu, CpuThreadsTest, testing::ValuesIn(kernels_of(make)), kernel_name);

}  // namespace
}  // namespace tandem::test
