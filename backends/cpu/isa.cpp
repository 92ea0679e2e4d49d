#include "backends/cpu/isa.hpp"

#include <vector>

namespace tandem::cpu {
namespace {

std::vector<CompiledSet> detect() {
  std::vector<CompiledSet> sets;
#if defined(TANDEM_CPU_AVX512) || defined(TANDEM_CPU_AVX2)
  __builtin_cpu_init();
#endif
#if defined(TANDEM_CPU_AVX512)
  sets.push_back({&kAvx512Kernels, __builtin_cpu_supports("x86-64-v4") > 0});
#endif
#if defined(TANDEM_CPU_AVX2)
  sets.push_back({&kAvx2Kernels, __builtin_cpu_supports("x86-64-v3") > 0});
#endif
  sets.push_back({&kBaselineKernels, true});
  sets.push_back({&kScalarKernels, true});
  return sets;
}

}  // namespace

std::span<const CompiledSet> compiled_sets() {
  static const std::vector<CompiledSet> sets = detect();
  return sets;
}

}  // namespace tandem::cpu
