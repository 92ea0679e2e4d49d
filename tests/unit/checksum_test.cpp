#include "core/checksum.hpp"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"
#include "core/xxh3.hpp"

namespace tandem {
namespace {

std::vector<std::byte> random_bytes(std::size_t count) {
  const CounterRandom random("checksums", 3);
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(random.bits(i));
  return bytes;
}

/// By the library alone: digests of the pieces, most significant byte first, and of those.
XXH128_hash_t two_levels(const std::vector<std::byte>& block) {
  std::vector<unsigned char> digests;
  for (std::size_t begin = 0; begin < block.size(); begin += 16384) {
    const XXH128_hash_t piece =
        XXH3_128bits(block.data() + begin, std::min<std::size_t>(16384, block.size() - begin));
    for (XXH64_hash_t half : {piece.high64, piece.low64}) {
      for (int shift = 56; shift >= 0; shift -= 8)
        digests.push_back(static_cast<unsigned char>(half >> shift));
    }
  }
  return XXH3_128bits(digests.data(), digests.size());
}

TEST(Xxh3, IsTheLibrarysForEveryLengthAndAlignment) {
  const std::vector<std::byte> bytes = random_bytes(150'000);
  const auto expect_same = [&](std::size_t offset, std::size_t length) {
    const auto* data = reinterpret_cast<const unsigned char*>(bytes.data()) + offset;
    const XXH128_hash_t expected = XXH3_128bits(data, length);
    const xxh3::Digest found = xxh3::digest(data, length);
    ASSERT_EQ(found.high, expected.high64) << length << " bytes at " << offset;
    ASSERT_EQ(found.low, expected.low64) << length << " bytes at " << offset;
  };
  for (std::size_t length = 0; length <= 4200; ++length) expect_same(length % 17, length);
  for (std::size_t length : {16'320u, 16'383u, 16'384u, 16'385u, 65'536u, 131'071u}) expect_same(0, length);
}

TEST(BlockChecksum, IsTheXxh3OfItsPiecesXxh3) {
  for (std::size_t length : {0u, 1u, 64u, 16'383u, 16'384u, 16'385u, 32'768u, 262'144u, 3'268'608u}) {
    const std::vector<std::byte> block = random_bytes(length);
    const XXH128_hash_t expected = two_levels(block);
    EXPECT_EQ(block_checksum(block), (Checksum{expected.high64, expected.low64})) << length << " bytes";
  }
}

TEST(BlockChecksum, ChangesWithEveryBit) {
  std::vector<std::byte> block = random_bytes(40'000);
  const Checksum before = block_checksum(block);
  for (std::size_t bit = 0; bit < 8 * block.size(); bit += 997) {
    const auto flip = std::byte{1} << bit % 8;
    block[bit / 8] ^= flip;
    ASSERT_NE(block_checksum(block), before) << "bit " << bit;
    block[bit / 8] ^= flip;
  }
  EXPECT_EQ(block_checksum(block), before);
}

TEST(BlockChecksum, OfSeveralBlocksDependsOnTheirOrder) {
  const Checksum a{1, 2}, b{3, 4};
  const Checksum ab[] = {a, b}, ba[] = {b, a};
  EXPECT_NE(join_checksums(ab), join_checksums(ba));
  EXPECT_NE(join_checksums({ab, 1}), a);
  const std::vector<std::byte> block = random_bytes(2 * kChecksumPieceBytes);
  const std::span<const std::byte> whole = block;
  const auto xxh3_of = [](std::span<const std::byte> bytes) { return checksum(bytes); };
  const Checksum pieces[] = {xxh3_of(whole.first(kChecksumPieceBytes)),
                             xxh3_of(whole.last(kChecksumPieceBytes))};
  EXPECT_EQ(join_checksums(pieces), block_checksum(whole)) << "as the pieces of one";
}

TEST(ByteRanges, BeginAtAMultipleOfTheirAlignment) {
  alignas(16) std::byte memory[32];
  const ByteRange good[] = {{memory, 3}, {memory + 16, 16}};
  EXPECT_NO_THROW(validate(good));
  const ByteRange bad[] = {{memory, 3}, {memory + 8, 16}};
  try {
    validate(bad);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("multiple of 16"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tandem
