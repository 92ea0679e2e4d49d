#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/io/gguf_blocks.hpp"
#include "core/q4.hpp"
#include "core/q4_quantizer.hpp"
#include "core/random.hpp"

namespace tandem {
namespace {

/// All readable types against the Python package: gguf_test.py. Here are values that can be worked out by
/// hand.
std::vector<float> values_of(std::uint32_t id, const std::vector<std::uint8_t>& bytes) {
  const GgmlType& type = *find_ggml_type(id);
  const auto blocks = static_cast<std::int64_t>(bytes.size()) / type.block_bytes;
  std::vector<float> values(static_cast<std::size_t>(blocks * type.block_elements));
  dequantize_blocks(type, bytes.data(), 0, blocks, values.data());
  return values;
}

constexpr std::uint8_t kHalf[] = {0x00, 0x38};  // 0.5
constexpr std::uint8_t kMinusTwo[] = {0x00, 0xc0};

std::vector<std::uint8_t> block(std::initializer_list<std::vector<std::uint8_t>> parts) {
  std::vector<std::uint8_t> bytes;
  for (const auto& part : parts) bytes.insert(bytes.end(), part.begin(), part.end());
  return bytes;
}
std::vector<std::uint8_t> half() { return {std::begin(kHalf), std::end(kHalf)}; }
std::vector<std::uint8_t> minus_two() { return {std::begin(kMinusTwo), std::end(kMinusTwo)}; }

TEST(GgufBlocks, KnowsTypesByNumberAndName) {
  EXPECT_EQ(find_ggml_type(2)->name, "Q4_0");
  EXPECT_EQ(find_ggml_type(14)->block_bytes, 210);
  EXPECT_EQ(find_ggml_type(4), nullptr);  // was given up by GGML
  EXPECT_TRUE(is_readable(*find_ggml_type(12)));
  EXPECT_FALSE(is_readable(*find_ggml_type(10)));
  EXPECT_EQ(plain_dtype(*find_ggml_type(30)), DType::bf16);
  EXPECT_EQ(plain_dtype(*find_ggml_type(8)), std::nullopt);
}

TEST(GgufBlocks, LowHalvesComeFirst) {
  std::vector<std::uint8_t> levels(16, 0x88);
  levels[0] = 0x9f;  // element 0: 15, element 16: 9
  const auto q4_0 = values_of(2, block({half(), levels}));
  EXPECT_EQ(q4_0[0], 3.5f);
  EXPECT_EQ(q4_0[16], 0.5f);
  EXPECT_EQ(q4_0[1], 0.0f);
  const auto q4_1 = values_of(3, block({half(), minus_two(), levels}));
  EXPECT_EQ(q4_1[0], 5.5f);
  EXPECT_EQ(q4_1[16], 2.5f);
}

TEST(GgufBlocks, Q8_0HasSignedBytes) {
  std::vector<std::uint8_t> levels(32, 0);
  levels[3] = 0xff;
  const auto values = values_of(8, block({minus_two(), levels}));
  EXPECT_EQ(values[3], 2.0f);
}

TEST(GgufBlocks, SubScalesHaveSixBits) {
  std::vector<std::uint8_t> scales(12, 0);
  scales[1] = 0xc0 | 5;  // scale 1 is 5; bits 4 and 5 of scale 5 are set
  scales[9] = 0x2a;      // low bits of scale 5 are 10, of minimum 5 are 2
  scales[6] = 0x40 | 7;  // minimum 2 is 7; bit 4 of minimum 6 is set
  std::vector<std::uint8_t> levels(128, 0);
  levels[2 * 32] = 0xf0;  // element 5 * 32 is 15
  const auto values = values_of(12, block({half(), half(), scales, levels}));
  EXPECT_EQ(values[5 * 32], 0.5f * (10 + 48) * 15 - 0.5f * 2);
  EXPECT_EQ(values[5 * 32 + 1], -0.5f * 2);
  EXPECT_EQ(values[2 * 32], -0.5f * 7);
  EXPECT_EQ(values[6 * 32], -0.5f * 16);
}

TEST(GgufBlocks, PartsAreTheWhole) {
  const GgmlType& type = *find_ggml_type(14);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(6 * type.block_bytes));
  const CounterRandom random("blocks", 1);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(random.bits(i) & 0x3f);
  const std::vector<float> whole = values_of(14, bytes);
  std::vector<float> parts(whole.size());
  for (std::int64_t b = 0; b < 6; b += 2) {
    dequantize_blocks(type, bytes.data(), b, b + 2, parts.data() + b * type.block_elements);
  }
  EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(float)), 0);
}

TEST(GgufBlocks, RepackedQ4HasTheSameValues) {
  constexpr std::int64_t kRows = 5, kColumns = 96, kBlocks = kRows * kColumns / kQ4Block;
  std::vector<std::uint8_t> bytes(kBlocks * kQ4BlockBytes);
  const CounterRandom random("repack", 1);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(random.bits(i));
  for (std::int64_t b = 0; b < kBlocks; ++b) bytes[static_cast<std::size_t>(b * kQ4BlockBytes + 1)] &= 0x3f;
  std::vector<std::uint8_t> packed(bytes.size());
  repack_q4_0(bytes.data(), kBlocks, 7, kBlocks, packed.data());
  repack_q4_0(bytes.data(), kBlocks, 0, 7, packed.data());
  const std::vector<float> expected = values_of(2, bytes);
  const ConstTensor matrix(packed.data(), DType::q4, Shape{kRows, kColumns});
  std::vector<float> row(kColumns);
  for (std::int64_t r = 0; r < kRows; ++r) {
    dequantize_q4_row(matrix, r, row.data());
    EXPECT_EQ(std::memcmp(row.data(), expected.data() + r * kColumns, kColumns * sizeof(float)), 0) << r;
  }
}

}  // namespace
}  // namespace tandem
