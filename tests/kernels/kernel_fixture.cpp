#include "tests/kernels/kernel_fixture.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "backends/cpu/cpu_backend.hpp"

namespace tandem::test {

void PrintTo(const KernelParam& param, std::ostream* out) {
  *out << name(param.kernel.op) << ' ' << param.kernel.variant;
}

std::vector<KernelParam> kernels_of(const MakeBackend& make) {
  std::vector<KernelParam> params;
  for (const KernelInfo& kernel : make()->kernels()) params.push_back({make, kernel});
  return params;
}

std::string kernel_name(const testing::TestParamInfo<KernelParam>& info) {
  return fmt::format("{}_{}", name(info.param.kernel.op), info.param.kernel.variant);
}

std::unique_ptr<Backend> make_cpu(int threads, const std::string& variant) {
  CpuOptions options;
  options.threads = threads, options.variant = variant;
  return make_cpu_backend(options);
}

std::unique_ptr<Backend> make_definition() { return make_cpu(1, "scalar"); }

std::uint64_t first_seed() {
  const char* text = std::getenv("TANDEM_SEED");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

void KernelTest::SetUp() {
  definition_ = make_definition();
  candidate_ = GetParam().make();
  if (!kernel().usable) {
    GTEST_SKIP() << candidate_->info().name << ": this machine cannot run " << kernel().variant;
  }
  candidate_->force_variant(kernel().variant);
}

}  // namespace tandem::test
