#pragma once

#include <cstring>

#include "backends/cpu/kernels/simd.hpp"
#include "core/q4.hpp"

/// Vectors over the blocks of a raw-q4 row. kWidth neighbouring blocks are a group, one to an element; a
/// group is in memory four vectors of levels, each of kQuads whole blocks of 16 bytes.
namespace tandem::cpu::TANDEM_ISA::q4 {

using simd::IntVec;
using simd::kWidth;
using simd::UintVec;
using simd::Vec;

inline constexpr int kBlock = static_cast<int>(kQ4Block);
inline constexpr int kQuads = kWidth / 4;  ///< pieces of 16 bytes in a vector
inline constexpr int kGroupLevelBytes = kWidth * kBlock / 2;
inline constexpr int kVectorBytes = kWidth * 4;
/// Vectors that hold the 32 lanes: group g belongs to number g mod kLaneVectors.
inline constexpr int kLaneVectors = num::kLanes / kWidth;

TANDEM_FN std::int64_t groups_of(std::int64_t n) { return (n / kBlock + kWidth - 1) / kWidth; }

TANDEM_FN UintVec load_bytes(const void* p) { return *static_cast<const simd::UnalignedUintVec*>(p); }

/// Of each 16 bytes of a and b: the first (last) two words of both, taken in turn; the first (last) halves.
constexpr int low_pair(int i) { return (i & ~3) + (i & 2) / 2 + (i & 1) * kWidth; }
constexpr int high_pair(int i) { return low_pair(i) + 2; }
constexpr int low_half(int i) { return (i & ~3) + (i & 1) + (i & 2) / 2 * kWidth; }
constexpr int high_half(int i) { return low_half(i) + 2; }
TANDEM_FN IntVec low_pairs(IntVec a, IntVec b) { return simd::shuffled<low_pair>(a, b); }
TANDEM_FN IntVec high_pairs(IntVec a, IntVec b) { return simd::shuffled<high_pair>(a, b); }
TANDEM_FN IntVec low_halves(IntVec a, IntVec b) { return simd::shuffled<low_half>(a, b); }
TANDEM_FN IntVec high_halves(IntVec a, IntVec b) { return simd::shuffled<high_half>(a, b); }

/// Words 0..3 of a group's blocks, from four vectors of whole blocks. Element 4 * quad + i is block
/// i * kQuads + quad: in_order() puts that right.
TANDEM_FN void transpose(const IntVec* v, IntVec* words) {
  const IntVec a = low_pairs(v[0], v[1]), b = high_pairs(v[0], v[1]);
  const IntVec c = low_pairs(v[2], v[3]), d = high_pairs(v[2], v[3]);
  words[0] = low_halves(a, c), words[1] = high_halves(a, c);
  words[2] = low_halves(b, d), words[3] = high_halves(b, d);
}

/// The sum of the four words of each block, in the same order.
TANDEM_FN IntVec sum_words(const IntVec* v) {
  const IntVec a = low_pairs(v[0], v[1]) + high_pairs(v[0], v[1]);
  const IntVec b = low_pairs(v[2], v[3]) + high_pairs(v[2], v[3]);
  return low_halves(a, b) + high_halves(a, b);
}

/// Where element i of in_order() comes from.
constexpr int ordered(int i) { return (i & (kQuads - 1)) * 4 + i / kQuads; }

template <class V>
TANDEM_FN V in_order(V v) {
  return simd::shuffled<ordered>(v, v);
}

/// The scales of a group.
TANDEM_FN Vec scales(const f16* s) {
#if defined(__AVX512F__)
  // Without a mask, gcc 12's header warns of its own uninitialised variable.
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s)));
#elif defined(__AVX2__) && defined(__FMA__)
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(s)));
#else
  Vec v;
  for (int i = 0; i < kWidth; ++i) v[i] = num::widen(s[i]);
  return v;
#endif
}

/// What a group's kernel reads, also when the row ends within it: the blocks that are not there have levels 0
/// and the scale -0, so that their sum is +0 and lane = fma(-0, +0, lane) is the lane itself, -0 included.
struct Group {
  alignas(64) std::uint8_t levels[kGroupLevelBytes];
  f16 scales[kWidth];
};

TANDEM_FN void fill(Group& group, const std::uint8_t* levels, const f16* scales, std::int64_t blocks) {
  std::memset(group.levels, 0x88, sizeof group.levels);
  std::memcpy(group.levels, levels, static_cast<std::size_t>(blocks * (kBlock / 2)));
  for (f16& s : group.scales) s = f16{0x8000};
  std::memcpy(group.scales, scales, static_cast<std::size_t>(blocks) * sizeof(f16));
}

/// Bytes from levels to those that are asked for beside them: the same place of a later tile of rows, so that
/// a tile's rows ask for all of it. At least 4 KiB (../README.md).
TANDEM_FN std::uintptr_t bytes_ahead(std::int64_t row_blocks, int rows) {
  constexpr std::uintptr_t kLeast = 4096;
  if (row_blocks == 0) return kLeast;
  const auto tile = static_cast<std::uintptr_t>(rows * row_blocks * (kBlock / 2));
  return (kLeast + tile - 1) / tile * tile;
}

/// For the levels of a group.
TANDEM_FN void prefetch(const std::uint8_t* levels, std::uintptr_t ahead) {
#pragma GCC unroll 4
  for (int at = 0; at < kGroupLevelBytes; at += 64) simd::prefetch(levels + at, ahead);
}

}  // namespace tandem::cpu::TANDEM_ISA::q4
