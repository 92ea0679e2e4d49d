#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstdint>
#include <utility>

#include "core/reduce.hpp"

/// Vectors of f32 as wide as the instruction set that this source is compiled for. The vector extension
/// of gcc and clang does all but the fma (which it would leave as a product and a sum: contraction is off)
/// and the partial loads. Everything is static and in the namespace of the instruction set: no symbol of one
/// may serve another (README.md).
namespace tandem::cpu::TANDEM_ISA::simd {

#if defined(__AVX512F__)
inline constexpr int kWidth = 16;
#elif defined(__AVX2__) && defined(__FMA__)
inline constexpr int kWidth = 8;
#else
inline constexpr int kWidth = 4;
#endif

typedef float Vec __attribute__((vector_size(kWidth * 4)));
typedef std::int32_t IntVec __attribute__((vector_size(kWidth * 4)));
typedef std::uint32_t UintVec __attribute__((vector_size(kWidth * 4)));
typedef float UnalignedVec __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));
typedef std::uint32_t UnalignedUintVec __attribute__((vector_size(kWidth * 4), aligned(2), may_alias));

TANDEM_FN Vec load(const float* p) { return *reinterpret_cast<const UnalignedVec*>(p); }
TANDEM_FN void store(float* p, Vec v) { *reinterpret_cast<UnalignedVec*>(p) = v; }

/// Asks for the cache line `ahead` bytes on.
TANDEM_FN void prefetch(const void* p, std::uintptr_t ahead) {
  // As a number, for it may be past the end of the memory: a prefetch of what is not there does nothing.
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) + ahead));
}

TANDEM_FN Vec fma(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__) && defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  Vec r;
  for (int i = 0; i < kWidth; ++i) r[i] = num::fma(a[i], b[i], c[i]);
  return r;
#endif
}

/// Element i of the result is element index(i) of the concatenation of a and b.
template <int (*index)(int), class V, int... i>
TANDEM_FN V shuffled(V a, V b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, index(i)...);
}
template <int (*index)(int), class V>
TANDEM_FN V shuffled(V a, V b) {
  return shuffled<index>(a, b, std::make_integer_sequence<int, kWidth>());
}

/// The elements with even (odd) index of the concatenation of a and b, in order.
constexpr int even(int i) { return 2 * i; }
constexpr int odd(int i) { return 2 * i + 1; }
TANDEM_FN Vec evens(Vec a, Vec b) { return shuffled<even>(a, b); }
TANDEM_FN Vec odds(Vec a, Vec b) { return shuffled<odd>(a, b); }

/// Sums of neighbours: element i is x[2i] + x[2i+1] of the concatenation.
TANDEM_FN Vec add_neighbours(Vec a, Vec b) { return evens(a, b) + odds(a, b); }

/// Element l is v[(l + offset) mod kWidth].
template <int offset>
constexpr int ahead(int i) {
  return (i + offset) & (kWidth - 1);
}
template <int offset, class V>
TANDEM_FN V rotated(V v) {
  return shuffled<ahead<offset>>(v, v);
}

/// The 32 lanes of a reduction, joined as num::join_lanes does: first whole vectors, then the halves of one.
TANDEM_FN float join_lanes(Vec* lanes) {
#pragma GCC unroll 4
  for (int count = num::kLanes / kWidth; count > 1; count /= 2) {
#pragma GCC unroll 4
    for (int i = 0; i < count / 2; ++i) lanes[i] = lanes[i] + lanes[i + count / 2];
  }
  Vec v = lanes[0];
  if constexpr (kWidth >= 16) v = v + rotated<8>(v);
  if constexpr (kWidth >= 8) v = v + rotated<4>(v);
  v = v + rotated<2>(v);
  v = v + rotated<1>(v);
  return v[0];
}

/// The f32 of the even (low half) and odd (high half) elements of 2 * kWidth bf16.
TANDEM_FN Vec even_bf16(UintVec pairs) { return (Vec)(pairs << 16); }
TANDEM_FN Vec odd_bf16(UintVec pairs) { return (Vec)(pairs & 0xffff0000u); }

}  // namespace tandem::cpu::TANDEM_ISA::simd
