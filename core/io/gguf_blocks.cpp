#include "core/io/gguf_blocks.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/numerics.hpp"

namespace tandem {

namespace {

using BlockReader = void (*)(const std::uint8_t* block, float* to);

constexpr int kSmallBlock = 32;
constexpr int kSuperBlock = 256;

float f16_at(const std::uint8_t* bytes) {
  return num::widen(f16{static_cast<std::uint16_t>(bytes[0] | (bytes[1] << 8))});
}

/// Level i of 32 in 16 bytes: the low halves first.
int nibble_at(const std::uint8_t* bytes, int i) {
  return i < kSmallBlock / 2 ? bytes[i] & 15 : bytes[i - kSmallBlock / 2] >> 4;
}

void read_f32(const std::uint8_t* block, float* to) { std::memcpy(to, block, sizeof *to); }

void read_f16(const std::uint8_t* block, float* to) { *to = f16_at(block); }

void read_bf16(const std::uint8_t* block, float* to) {
  *to = num::widen(bf16{static_cast<std::uint16_t>(block[0] | (block[1] << 8))});
}

/// f16 scale, 16 bytes of levels.
void read_q4_0(const std::uint8_t* block, float* to) {
  const float d = f16_at(block);
  for (int i = 0; i < kSmallBlock; ++i) to[i] = d * static_cast<float>(nibble_at(block + 2, i) - 8);
}

/// f16 scale, f16 minimum, 16 bytes of levels.
void read_q4_1(const std::uint8_t* block, float* to) {
  const float d = f16_at(block), m = f16_at(block + 2);
  for (int i = 0; i < kSmallBlock; ++i) to[i] = d * static_cast<float>(nibble_at(block + 4, i)) + m;
}

/// f16 scale, 32 signed bytes.
void read_q8_0(const std::uint8_t* block, float* to) {
  const float d = f16_at(block);
  for (int i = 0; i < kSmallBlock; ++i)
    to[i] = d * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
}

/// The scale and minimum of each 32 elements of Q4_K and Q5_K, already times their f16 factors. A block
/// begins with the two factors and 12 bytes of 6-bit numbers: of the first four pairs they are the low bits
/// of bytes 0-3 and 4-7, of the others the halves of bytes 8-11 with those bytes' high bits above.
class SubScales {
 public:
  static constexpr int kBytes = 16;

  explicit SubScales(const std::uint8_t* block)
      : d_(f16_at(block)), d_min_(f16_at(block + 2)), packed_(block + 4) {}

  float scale(int j) const { return d_ * static_cast<float>(number(packed_, j, 0)); }
  float minimum(int j) const { return d_min_ * static_cast<float>(number(packed_ + 4, j, 4)); }

 private:
  int number(const std::uint8_t* first, int j, int shift) const {
    if (j < 4) return first[j] & 63;
    return ((packed_[8 + j - 4] >> shift) & 15) | ((first[j - 4] >> 2) & 48);
  }

  float d_, d_min_;
  const std::uint8_t* packed_;
};

/// Level i of the j-th 32 in 128 bytes: 32 bytes have two times 32 levels.
int nibble_of_32(const std::uint8_t* levels, int j, int i) {
  return (levels[j / 2 * 32 + i] >> (4 * (j % 2))) & 15;
}

/// Scales, 128 bytes of levels.
void read_q4_k(const std::uint8_t* block, float* to) {
  const SubScales scales(block);
  const std::uint8_t* levels = block + SubScales::kBytes;
  for (int j = 0; j < kSuperBlock / 32; ++j) {
    const float d = scales.scale(j), m = scales.minimum(j);
    for (int i = 0; i < 32; ++i) to[32 * j + i] = d * static_cast<float>(nibble_of_32(levels, j, i)) - m;
  }
}

/// Scales, 32 bytes with a fifth bit of each level (bit j: of the j-th 32), 128 bytes with the others.
void read_q5_k(const std::uint8_t* block, float* to) {
  const SubScales scales(block);
  const std::uint8_t* high = block + SubScales::kBytes;
  const std::uint8_t* low = high + 32;
  for (int j = 0; j < kSuperBlock / 32; ++j) {
    const float d = scales.scale(j), m = scales.minimum(j);
    for (int i = 0; i < 32; ++i) {
      const int level = nibble_of_32(low, j, i) | (((high[i] >> j) & 1) << 4);
      to[32 * j + i] = d * static_cast<float>(level) - m;
    }
  }
}

/// 128 bytes of low halves, 64 bytes of two high bits, 16 signed scales, f16 factor. Each half of the block
/// has 64 bytes of low halves for four times 32 levels.
void read_q6_k(const std::uint8_t* block, float* to) {
  const std::uint8_t *low = block, *high = block + 128, *scales = block + 192;
  const float d = f16_at(block + 208);
  for (int j = 0; j < kSuperBlock / 32; ++j) {
    const int half = j / 4, quarter = j % 4;
    for (int i = 0; i < 32; ++i) {
      const int low_bits = (low[64 * half + 32 * (quarter % 2) + i] >> (4 * (quarter / 2))) & 15;
      const int high_bits = (high[32 * half + i] >> (2 * quarter)) & 3;
      const int at = 32 * j + i;
      const float scale = d * static_cast<float>(static_cast<std::int8_t>(scales[at / 16]));
      to[at] = scale * static_cast<float>((low_bits | (high_bits << 4)) - 32);
    }
  }
}

struct KnownType {
  GgmlType type;
  BlockReader read;  ///< nullptr: only its size is known
};

constexpr KnownType kKnownTypes[] = {
    {{0, "F32", 1, 4}, read_f32},        {{1, "F16", 1, 2}, read_f16},
    {{2, "Q4_0", 32, 18}, read_q4_0},    {{3, "Q4_1", 32, 20}, read_q4_1},
    {{6, "Q5_0", 32, 22}, nullptr},      {{7, "Q5_1", 32, 24}, nullptr},
    {{8, "Q8_0", 32, 34}, read_q8_0},    {{9, "Q8_1", 32, 40}, nullptr},
    {{10, "Q2_K", 256, 84}, nullptr},    {{11, "Q3_K", 256, 110}, nullptr},
    {{12, "Q4_K", 256, 144}, read_q4_k}, {{13, "Q5_K", 256, 176}, read_q5_k},
    {{14, "Q6_K", 256, 210}, read_q6_k}, {{15, "Q8_K", 256, 292}, nullptr},
    {{16, "IQ2_XXS", 256, 66}, nullptr}, {{17, "IQ2_XS", 256, 74}, nullptr},
    {{18, "IQ3_XXS", 256, 98}, nullptr}, {{19, "IQ1_S", 256, 50}, nullptr},
    {{20, "IQ4_NL", 32, 18}, nullptr},   {{21, "IQ3_S", 256, 110}, nullptr},
    {{22, "IQ2_S", 256, 82}, nullptr},   {{23, "IQ4_XS", 256, 136}, nullptr},
    {{24, "I8", 1, 1}, nullptr},         {{25, "I16", 1, 2}, nullptr},
    {{26, "I32", 1, 4}, nullptr},        {{27, "I64", 1, 8}, nullptr},
    {{28, "F64", 1, 8}, nullptr},        {{29, "IQ1_M", 256, 56}, nullptr},
    {{30, "BF16", 1, 2}, read_bf16},     {{34, "TQ1_0", 256, 54}, nullptr},
    {{35, "TQ2_0", 256, 66}, nullptr},   {{39, "MXFP4", 32, 17}, nullptr},
};

const KnownType* find_known(std::uint32_t id) {
  const auto* known = std::ranges::find(kKnownTypes, id, [](const KnownType& k) { return k.type.id; });
  return known == std::end(kKnownTypes) ? nullptr : known;
}

}  // namespace

const GgmlType* find_ggml_type(std::uint32_t id) {
  const KnownType* known = find_known(id);
  return known == nullptr ? nullptr : &known->type;
}

bool is_readable(const GgmlType& type) {
  const KnownType* known = find_known(type.id);
  return known != nullptr && known->read != nullptr;
}

std::string_view readable_ggml_types() { return "F32, F16, BF16, Q4_0, Q4_1, Q8_0, Q4_K, Q5_K or Q6_K"; }

std::optional<DType> plain_dtype(const GgmlType& type) {
  if (type.name == "F32") return DType::f32;
  if (type.name == "F16") return DType::f16;
  if (type.name == "BF16") return DType::bf16;
  return std::nullopt;
}

void dequantize_blocks(const GgmlType& type, const void* blocks, std::int64_t begin, std::int64_t end,
                       float* to) {
  const BlockReader read = find_known(type.id)->read;
  const std::uint8_t* block = static_cast<const std::uint8_t*>(blocks) + begin * type.block_bytes;
  for (std::int64_t b = begin; b < end; ++b, block += type.block_bytes, to += type.block_elements) {
    read(block, to);
  }
}

void repack_q4_0(const void* blocks, std::int64_t count, std::int64_t begin, std::int64_t end, void* to) {
  constexpr std::int64_t kLevelBytes = kQ4Block / 2, kScaleBytes = kQ4BlockBytes - kLevelBytes;
  const std::uint8_t* from = static_cast<const std::uint8_t*>(blocks) + begin * kQ4BlockBytes;
  auto* levels = static_cast<std::uint8_t*>(to);
  std::uint8_t* scales = levels + count * kLevelBytes;
  for (std::int64_t b = begin; b < end; ++b, from += kQ4BlockBytes) {
    std::memcpy(scales + b * kScaleBytes, from, kScaleBytes);
    std::memcpy(levels + b * kLevelBytes, from + kScaleBytes, kLevelBytes);
  }
}

}  // namespace tandem
