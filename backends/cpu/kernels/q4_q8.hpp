#pragma once

#include "backends/cpu/kernels/q4_simd.hpp"

/// num::dot_q4q8: activations in 8 bits. Levels are multiplied as q + 8, which is unsigned, and 8 * sum(x)
/// taken off the sum: whole numbers, so in any order.
namespace tandem::cpu::TANDEM_ISA::q4 {

typedef std::uint8_t ByteVec __attribute__((vector_size(kVectorBytes)));
typedef std::uint16_t ShortVec __attribute__((vector_size(kVectorBytes)));

/// The halves of a vector of whole blocks: levels 0..15 and 16..31 of each, as q + 8.
struct Halves {
  ByteVec low, high;

  TANDEM_FN Halves of(const std::uint8_t* levels) {
    const UintVec v = load_bytes(levels);
    return {(ByteVec)v & 15, (ByteVec)((ShortVec)v >> 4) & 15};
  }
};

/// Four partial sums of (q + 8) * x for each block. At most 2 * 15 * 127 for each half of a pair, so 16 bits
/// do.
TANDEM_FN IntVec multiply(const Halves& q, const std::int8_t* x) {
#if defined(__AVX512BW__)
  const __m512i pairs = _mm512_add_epi16(_mm512_maddubs_epi16((__m512i)q.low, _mm512_loadu_si512(x)),
                                         _mm512_maddubs_epi16((__m512i)q.high, _mm512_loadu_si512(x + 64)));
  return (IntVec)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#elif defined(__AVX2__) && defined(__FMA__)
  const auto* at = reinterpret_cast<const __m256i*>(x);
  const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16((__m256i)q.low, _mm256_loadu_si256(at)),
                                         _mm256_maddubs_epi16((__m256i)q.high, _mm256_loadu_si256(at + 1)));
  return (IntVec)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif defined(__SSE2__)
  const auto eight = [](__m128i levels, __m128i twice) {  // a level a pair of bytes, x in the upper one
    return _mm_madd_epi16(levels, _mm_srai_epi16(twice, 8));
  };
  IntVec sums = {};
  const __m128i levels[] = {(__m128i)q.low, (__m128i)q.high};
  for (int i = 0; i < 2; ++i) {
    const __m128i v = (__m128i)load_bytes(x + i * kVectorBytes), zero = _mm_setzero_si128();
    sums += (IntVec)eight(_mm_unpacklo_epi8(levels[i], zero), _mm_unpacklo_epi8(v, v));
    sums += (IntVec)eight(_mm_unpackhi_epi8(levels[i], zero), _mm_unpackhi_epi8(v, v));
  }
  return sums;
#else
  IntVec sums = {};
  for (int i = 0; i < kVectorBytes; ++i) sums[i / 4] += q.low[i] * x[i] + q.high[i] * x[kVectorBytes + i];
  return sums;
#endif
}

/// All elements joined, in element 0.
template <class Join>
TANDEM_FN IntVec folded(IntVec v, const Join& join) {
  if constexpr (kWidth >= 16) v = join(v, simd::rotated<8>(v));
  if constexpr (kWidth >= 8) v = join(v, simd::rotated<4>(v));
  v = join(v, simd::rotated<2>(v));
  return join(v, simd::rotated<1>(v));
}

/// 32 whole numbers within 8 bits: the first 16 to `low`, the others to `high`.
TANDEM_FN void store_halves(const IntVec* v, std::int8_t* low, std::int8_t* high) {
#if defined(__AVX512F__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(low), _mm512_maskz_cvtepi32_epi8(0xffff, (__m512i)v[0]));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(high), _mm512_maskz_cvtepi32_epi8(0xffff, (__m512i)v[1]));
#elif defined(__AVX2__) && defined(__FMA__)
  const __m256i first = _mm256_packs_epi32((__m256i)v[0], (__m256i)v[1]);
  const __m256i second = _mm256_packs_epi32((__m256i)v[2], (__m256i)v[3]);
  // Packing stays within 16 bytes: words of v[0] to v[3], then again.
  const __m256i packed = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, second),
                                                     _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(low), _mm256_castsi256_si128(packed));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(high), _mm256_extracti128_si256(packed, 1));
#else
  std::int32_t all[kBlock];  // v[i / kWidth][i % kWidth] came out wrong with gcc 12's -fsanitize=undefined
  std::memcpy(all, v, sizeof all);
  for (int i = 0; i < kBlock / 2; ++i) {
    low[i] = static_cast<std::int8_t>(all[i]), high[i] = static_cast<std::int8_t>(all[i + kBlock / 2]);
  }
#endif
}

/// The activations of a group: levels as multiply() wants them, then the blocks' scales and 8 * sum(x).
struct Q8 {
  /// A row at a time: no chain is long here.
  static constexpr int kRowsOfOne = 1, kRowsOfSeveral = 1;
  static constexpr int kLevelFloats = kWidth * kBlock / 4;
  static constexpr int kGroupFloats = kLevelFloats + 2 * kWidth;

  TANDEM_FN std::int64_t laid_out(std::int64_t n) { return groups_of(n) * kGroupFloats; }

  TANDEM_FN void lay_out(const float* x, std::int64_t n, float* out) {
    const std::int64_t blocks = n / kBlock;
    for (std::int64_t g = 0; g < groups_of(n); ++g, out += kGroupFloats) {
      std::memset(out, 0, kGroupFloats * sizeof(float));
      for (int b = 0; b < kWidth && g * kWidth + b < blocks; ++b) {
        quantize(x + (g * kWidth + b) * kBlock, b, out);
      }
    }
  }

  /// Block b of a group; the same bits as num::quantize_q8.
  TANDEM_FN void quantize(const float* x, int b, float* group) {
    constexpr int kParts = kBlock / kWidth;
    IntVec largest = {};
    Vec parts[kParts];
    for (int p = 0; p < kParts; ++p) {
      parts[p] = simd::load(x + p * kWidth);
      const IntVec magnitude = (IntVec)parts[p] & 0x7fffffff;
      largest = magnitude > largest ? magnitude : largest;
    }
    largest = folded(largest, [](IntVec a, IntVec b) { return a > b ? a : b; });
    const float scale = num::float_of(static_cast<std::uint32_t>(largest[0])) / 127.0f;
    group[kLevelFloats + b] = scale;
    if (!num::q8_scale_usable(scale)) return;  // levels and their sum are 0 already
    IntVec whole[kParts], sum = {};
    for (int p = 0; p < kParts; ++p) {
      Vec level = parts[p] / scale;
      level = level > 127.0f ? Vec{} + 127.0f : level;
      level = level < -127.0f ? Vec{} - 127.0f : level;
      // Rounded as num::nearest does: the last bits of the sum are the whole number.
      whole[p] = (IntVec)(level + 0x1.8p23f) - 0x4b400000;
      sum += whole[p];
    }
    auto* levels = reinterpret_cast<std::int8_t*>(group) + b / kQuads * 2 * kVectorBytes + b % kQuads * 16;
    store_halves(whole, levels, levels + kVectorBytes);
    sum = folded(sum, [](IntVec a, IntVec b) { return a + b; }) * 8;
    std::memcpy(group + kLevelFloats + kWidth + b, &sum, sizeof(std::int32_t));
  }

  template <int rows, int tokens>
  TANDEM_FN void add_group(const std::uint8_t* const* levels, const f16* const* group_scales, const float* x,
                           std::int64_t x_stride, Vec (*lanes)[tokens]) {
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      Halves q[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) q[i] = Halves::of(levels[r] + i * kVectorBytes);
      const Vec d = scales(group_scales[r]);
#pragma GCC unroll 4
      for (int t = 0; t < tokens; ++t) {
        const float* group = x + t * x_stride;
        IntVec partial[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          partial[i] = multiply(q[i], reinterpret_cast<const std::int8_t*>(group) + i * 2 * kVectorBytes);
        }
        const IntVec sums = in_order(sum_words(partial)) - (IntVec)load_bytes(group + kLevelFloats + kWidth);
        lanes[r][t] =
            simd::fma(__builtin_convertvector(sums, Vec), d * simd::load(group + kLevelFloats), lanes[r][t]);
      }
    }
  }
};

}  // namespace tandem::cpu::TANDEM_ISA::q4
