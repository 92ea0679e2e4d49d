#include "tests/kernels/gdn_step_fixture.hpp"
#include "tests/kernels/kernel_fixture.hpp"

namespace tandem::test {
namespace {

std::unique_ptr<Backend> make() { return make_cpu(1, ""); }

INSTANTIATE_TEST_SUITE_P(Cpu, KernelTest, testing::ValuesIn(kernels_of(make)), kernel_name);
INSTANTIATE_TEST_SUITE_P(Cpu, GdnStepTest, testing::ValuesIn(variants_of(make)), variant_name);

}  // namespace
}  // namespace tandem::test
