#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/cases.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include "tests/kernels/parts.hpp"
#include "tests/kernels/run.hpp"
#include "tests/share.hpp"

/// Every kernel against the definition, over random cases.
namespace tandem::test {
namespace {

constexpr std::uint64_t kCases = 225;  ///< a multiple of the kinds of values
constexpr std::uint64_t kCasesInParts = 54;
static_assert(kCases % kValueKinds == 0 && kCasesInParts % kValueKinds == 0);

/// A projection has four forms and takes twice as many cases.
std::uint64_t cases_of(OpKind kind, std::uint64_t usual) {
  return share_of<std::uint64_t>(kind == OpKind::linear ? 2 * usual : usual, kValueKinds);
}

/// Every row alone, or a few cuts anywhere.
std::vector<std::int64_t> draw_cuts(std::int64_t rows, std::uint64_t seed) {
  Dice dice("cuts", seed);
  const bool all = dice.one_in(2);
  std::vector<std::int64_t> cuts;
  for (std::int64_t i = 1; i < rows; ++i) {
    if (all || dice.one_in(3)) cuts.push_back(i);
  }
  return cuts;
}

}  // namespace

TEST_P(KernelTest, EqualsTheDefinition) {
  for (std::uint64_t i = 0; i < cases_of(kernel().op, kCases); ++i) {
    const Case test = make_case(kernel().op, first_seed() + i, Scale::small);
    const Image expected = run(*definition_, test), found = run(*candidate_, test);
    ASSERT_THAT(found.variants, testing::ElementsAre(kernel().variant)) << test.text();
    const std::string wrong = difference(test, expected, found);
    ASSERT_TRUE(wrong.empty()) << kernel().variant << ": " << test.text() << '\n' << wrong;
  }
}

TEST_P(KernelTest, AStepCutAnywhereGivesTheSameBits) {
  for (std::uint64_t i = 0; i < cases_of(kernel().op, kCasesInParts); ++i) {
    const Case test = make_case(kernel().op, first_seed() + i, Scale::small);
    const Image whole = run(*candidate_, test);
    const Image parts = run(*candidate_, test, [&](Backend& backend, const Op& op) {
      return submit_in_parts(backend, op, draw_cuts(rows_of(op), test.seed));
    });
    ASSERT_THAT(parts.variants, testing::ElementsAre(kernel().variant)) << test.text();
    const std::string wrong = difference(test, whole, parts);
    ASSERT_TRUE(wrong.empty()) << kernel().variant << " in parts: " << test.text() << '\n' << wrong;
  }
}

}  // namespace tandem::test
