#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

#include "core/ops.hpp"

/// What a CPU kernel is: a function over a range of an operator's independent units (units.hpp), so that any
/// cut of the range over any number of threads gives the same bits. A set is one source compiled for one
/// instruction set.
namespace tandem::cpu {

template <class Args>
using Kernel = void (*)(const Args& args, std::int64_t begin, std::int64_t end);

template <class Variant>
struct KernelTuple;
template <class... Args>
struct KernelTuple<std::variant<Args...>> {
  using type = std::tuple<Kernel<Args>...>;
};

/// tandem::piece_digest (core/checksum.hpp): writes the 16 bytes of the digest.
using DigestKernel = void (*)(const void* piece, std::size_t bytes, unsigned char* digest);

struct KernelSet {
  std::string_view name;
  KernelTuple<Op>::type kernels;  ///< one for each alternative of Op, in its order
  DigestKernel digest;
};

/// The definition.
extern const KernelSet kScalarKernels;
/// The fast source, compiled for x86-64 (or whatever the compiler's default is elsewhere), avx2 + fma,
/// avx512.
extern const KernelSet kBaselineKernels;
#if defined(TANDEM_CPU_AVX2)
extern const KernelSet kAvx2Kernels;
#endif
#if defined(TANDEM_CPU_AVX512)
extern const KernelSet kAvx512Kernels;
#endif

/// At least `count` floats, aligned to 64 bytes, that belong to the calling thread until it asks again. Lives
/// outside the kernels' sources because those must not instantiate library templates for an instruction set
/// (kernels/README.md).
float* thread_scratch(std::int64_t count);

}  // namespace tandem::cpu
