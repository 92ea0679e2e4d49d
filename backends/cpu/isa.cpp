#include "backends/cpu/isa.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <vector>

namespace tandem::cpu {
namespace {

#if defined(TANDEM_CPU_AVX512) || defined(TANDEM_CPU_AVX2)
/// All that the level v3 of x86-64 has beyond v2, one by one: clang 16 does not know the levels' names, and
/// not all compilers know those of the three that are asked of the processor here.
bool has_v3() {
  unsigned a = 0, b = 0, basic = 0, extended = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &basic, &d) == 0 || __get_cpuid(0x80000001, &a, &b, &extended, &d) == 0)
    return false;
  const bool all_three = (basic & bit_F16C) != 0 && (basic & bit_MOVBE) != 0 && (extended & bit_LZCNT) != 0;
  return all_three && __builtin_cpu_supports("avx2") > 0 && __builtin_cpu_supports("fma") > 0 &&
         __builtin_cpu_supports("bmi") > 0 && __builtin_cpu_supports("bmi2") > 0;
}
#endif

#if defined(TANDEM_CPU_AVX512)
bool has_v4() {
  return has_v3() && __builtin_cpu_supports("avx512f") > 0 && __builtin_cpu_supports("avx512bw") > 0 &&
         __builtin_cpu_supports("avx512cd") > 0 && __builtin_cpu_supports("avx512dq") > 0 &&
         __builtin_cpu_supports("avx512vl") > 0;
}
#endif

std::vector<CompiledSet> detect() {
  std::vector<CompiledSet> sets;
#if defined(TANDEM_CPU_AVX512) || defined(TANDEM_CPU_AVX2)
  __builtin_cpu_init();
#endif
#if defined(TANDEM_CPU_AVX512)
  sets.push_back({&kAvx512Kernels, has_v4()});
#endif
#if defined(TANDEM_CPU_AVX2)
  sets.push_back({&kAvx2Kernels, has_v3()});
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
