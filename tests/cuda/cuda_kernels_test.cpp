#include "backends/cuda/cuda_backend.hpp"
#include "tests/kernels/gdn_step_fixture.hpp"
#include "tests/kernels/kernel_fixture.hpp"

/// Every kernel of the CUDA backend against the definition: the cases of the CPU's variants.
namespace tandem::test {

// Without a device there is no table to walk; ADeviceIsThere says so.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(KernelTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GdnStepTest);

namespace {

std::unique_ptr<Backend> make() { return make_cuda_backend({}); }

TEST(CudaKernels, ADeviceIsThere) {
  const CudaDevices devices = cuda_devices();
  if (devices.count == 0) GTEST_SKIP() << "kernels are not compared: " << devices.reason;
  EXPECT_FALSE(make()->kernels().empty());
}

std::vector<KernelParam> kernels() {
  return cuda_devices().count == 0 ? std::vector<KernelParam>() : kernels_of(make);
}

std::vector<VariantParam> variants() {
  return cuda_devices().count == 0 ? std::vector<VariantParam>() : variants_of(make);
}

INSTANTIATE_TEST_SUITE_P(Cuda, KernelTest, testing::ValuesIn(kernels()), kernel_name);
INSTANTIATE_TEST_SUITE_P(Cuda, GdnStepTest, testing::ValuesIn(variants()), variant_name);

}  // namespace
}  // namespace tandem::test
