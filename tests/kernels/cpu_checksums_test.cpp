#include <gtest/gtest.h>

#include "backends/cpu/cpu_backend.hpp"
#include "tests/kernels/block_checksums.hpp"

/// Checksums that threads share are those of the definition.
namespace tandem::test {
namespace {

class CpuChecksums : public testing::TestWithParam<int> {};

TEST_P(CpuChecksums, AreTheDefinitions) {
  const auto backend = make_cpu_backend({.name = "cpu", .threads = GetParam(), .variant = ""});
  expect_block_checksums(*backend);
}
INSTANTIATE_TEST_SUITE_P(Threads, CpuChecksums, testing::Values(1, 2, 3, 8));

TEST(CpuChecksumVariants, AreTheDefinitions) {
  const auto backend = make_cpu_backend({.name = "cpu", .threads = 2, .variant = ""});
  int variants = 0;
  for (const KernelInfo& row : backend->kernels()) {
    if (row.op != OpKind::linear || !row.usable) continue;
    backend->force_variant(row.variant);
    expect_block_checksums(*backend);
    ++variants;
  }
  EXPECT_GE(variants, 2);
}

}  // namespace
}  // namespace tandem::test
