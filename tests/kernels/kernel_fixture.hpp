#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/backend.hpp"

/// Tests with a row of a kernel table as parameter. The table is the test list: a backend adds its own with
///   INSTANTIATE_TEST_SUITE_P(Name, KernelTest, testing::ValuesIn(kernels_of(make)), kernel_name);
/// and a new row in its table is tested from then on. Set TANDEM_SEED to the seed of a failure's message to
/// begin with that case.
namespace tandem::test {

using MakeBackend = std::function<std::unique_ptr<Backend>()>;

struct KernelParam {
  MakeBackend make;
  KernelInfo kernel;
};
void PrintTo(const KernelParam& param, std::ostream* out);

/// The rows of a backend's table.
std::vector<KernelParam> kernels_of(const MakeBackend& make);

/// "linear_avx2".
std::string kernel_name(const testing::TestParamInfo<KernelParam>& info);

/// The CPU backend; an empty variant forces none.
std::unique_ptr<Backend> make_cpu(int threads, const std::string& variant);

/// Its scalar variant: the definition of every operator.
std::unique_ptr<Backend> make_definition();

/// TANDEM_SEED, or 0.
std::uint64_t first_seed();

/// A backend with the row's variant forced. Skips the test when this machine cannot run it.
class KernelTest : public testing::TestWithParam<KernelParam> {
 protected:
  void SetUp() override;

  const KernelInfo& kernel() const { return GetParam().kernel; }

  std::unique_ptr<Backend> definition_;
  std::unique_ptr<Backend> candidate_;
};

}  // namespace tandem::test
