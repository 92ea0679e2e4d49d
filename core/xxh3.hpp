#pragma once

#include <cstddef>
#include <cstdint>

#include "core/numerics.hpp"

/// XXH3 of 128 bits (seed 0, the default secret) for compilers that cannot build libxxhash: the integer
/// operations of its specification, github.com/Cyan4973/xxHash, for any length. The host uses the library;
/// the two must agree, and tests compare them. Little-endian machines only, as everything here.
///
/// Long input is cut into stripes of 64 bytes and blocks of 16 stripes. There are eight accumulators; a pair
/// of neighbours takes 16 bytes of each stripe and never looks at the other pairs. Within a block the stripes
/// are summed, so that their order makes no difference and lanes may share them; between blocks the
/// accumulators are scrambled, which is a chain.
namespace tandem::xxh3 {

inline constexpr std::size_t kStripeBytes = 64;
inline constexpr std::size_t kBlockStripes = 16;
inline constexpr std::size_t kBlockBytes = kStripeBytes * kBlockStripes;
inline constexpr int kPairs = 4;
/// Up to here input is short, and its digest another function.
inline constexpr std::size_t kShortBytes = 240;

inline constexpr std::uint64_t kPrime32_1 = 0x9E3779B1u, kPrime32_2 = 0x85EBCA77u, kPrime32_3 = 0xC2B2AE3Du;
inline constexpr std::uint64_t kPrime64_1 = 0x9E3779B185EBCA87u, kPrime64_2 = 0xC2B2AE3D27D4EB4Fu,
                               kPrime64_3 = 0x165667B19E3779F9u, kPrime64_4 = 0x85EBCA77C2B2AE63u,
                               kPrime64_5 = 0x27D4EB2F165667C5u;

struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
};

/// Two accumulators, or 16 bytes of input or secret.
struct Pair {
  std::uint64_t first;
  std::uint64_t second;
};

/// Eight bytes of the secret from a byte on, 0 to 184.
TANDEM_FN std::uint64_t secret(std::size_t byte) {
  static constexpr std::uint64_t kWords[24] = {
      0xbe4ba423396cfeb8u, 0x1cad21f72c81017cu, 0xdb979083e96dd4deu, 0x1f67b3b7a4a44072u, 0x78e5c0cc4ee679cbu,
      0x2172ffcc7dd05a82u, 0x8e2443f7744608b8u, 0x4c263a81e69035e0u, 0xcb00c391bb52283cu, 0xa32e531b8b65d088u,
      0x4ef90da297486471u, 0xd8acdea946ef1938u, 0x3f349ce33f76faa8u, 0x1d4f0bc7c7bbdcf9u, 0x3159b4cd4be0518au,
      0x647378d9c97e9fc8u, 0xc3ebd33483acc5eau, 0xeb6313faffa081c5u, 0x49daf0b751dd0d17u, 0x9e68d429265516d3u,
      0xfca1477d58be162bu, 0xce31d07ad1b8f88fu, 0x280416958f3acb45u, 0x7e404bbbcafbd7afu};
  const std::size_t word = byte / 8, shift = 8 * (byte % 8);
  return shift == 0 ? kWords[word] : (kWords[word] >> shift) | (kWords[word + 1] << (64 - shift));
}
TANDEM_FN Pair secret_pair(std::size_t byte) { return {secret(byte), secret(byte + 8)}; }

template <class Word>
TANDEM_FN Word read(const void* from) {
  Word word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}
TANDEM_FN Pair read_pair(const unsigned char* from) {
  return {read<std::uint64_t>(from), read<std::uint64_t>(from + 8)};
}

TANDEM_FN std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#else
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(a) * b) >> 64);
#endif
}
TANDEM_FN std::uint64_t fold(std::uint64_t a, std::uint64_t b) { return (a * b) ^ high_product(a, b); }
TANDEM_FN std::uint64_t shift_xor(std::uint64_t x, int bits) { return x ^ (x >> bits); }

TANDEM_FN std::uint64_t avalanche(std::uint64_t x) {
  return shift_xor(shift_xor(x, 37) * 0x165667919E3779F9u, 32);
}
TANDEM_FN std::uint64_t avalanche64(std::uint64_t x) {
  return shift_xor(shift_xor(shift_xor(x, 33) * kPrime64_2, 29) * kPrime64_3, 32);
}

/// Most significant byte first, as digests are written.
TANDEM_FN std::uint64_t swap_bytes(std::uint64_t x) {
  x = ((x & 0x00FF00FF00FF00FFu) << 8) | ((x >> 8) & 0x00FF00FF00FF00FFu);
  x = ((x & 0x0000FFFF0000FFFFu) << 16) | ((x >> 16) & 0x0000FFFF0000FFFFu);
  return (x << 32) | (x >> 32);
}

// Long input.

TANDEM_FN Pair initial_pair(int pair) {
  switch (pair) {
    case 0:
      return {kPrime32_3, kPrime64_1};
    case 1:
      return {kPrime64_2, kPrime64_3};
    case 2:
      return {kPrime64_4, kPrime32_2};
    default:
      return {kPrime64_5, kPrime32_1};
  }
}
TANDEM_FN std::size_t pair_offset(int pair) { return 16 * static_cast<std::size_t>(pair); }

/// The secret of a stripe of a block, of the last stripe of the input, and between blocks.
TANDEM_FN Pair stripe_key(std::size_t stripe, int pair) {
  return secret_pair(8 * stripe + pair_offset(pair));
}
TANDEM_FN Pair last_stripe_key(int pair) { return secret_pair(121 + pair_offset(pair)); }
TANDEM_FN Pair scramble_key(int pair) { return secret_pair(128 + pair_offset(pair)); }

TANDEM_FN std::uint64_t keyed_product(std::uint64_t data, std::uint64_t key) {
  const std::uint64_t keyed = data ^ key;
  return (keyed & 0xFFFFFFFFu) * (keyed >> 32);
}
/// What 16 bytes add to a pair.
TANDEM_FN Pair accumulate(Pair sum, Pair data, Pair key) {
  return {sum.first + data.second + keyed_product(data.first, key.first),
          sum.second + data.first + keyed_product(data.second, key.second)};
}
TANDEM_FN Pair scramble(Pair sum, Pair key) {
  return {(shift_xor(sum.first, 47) ^ key.first) * kPrime32_1,
          (shift_xor(sum.second, 47) ^ key.second) * kPrime32_1};
}

/// Blocks that are scrambled, and stripes that come after them, before the last one.
TANDEM_FN std::size_t full_blocks(std::size_t bytes) { return (bytes - 1) / kBlockBytes; }
TANDEM_FN std::size_t rest_stripes(std::size_t bytes) { return (bytes - 1) % kBlockBytes / kStripeBytes; }

/// A pair's share of the digest's two halves; finish() takes the sums of all four pairs'.
TANDEM_FN std::uint64_t low_share(Pair sum, int pair) {
  const Pair key = secret_pair(11 + pair_offset(pair));
  return fold(sum.first ^ key.first, sum.second ^ key.second);
}
TANDEM_FN std::uint64_t high_share(Pair sum, int pair) {
  const Pair key = secret_pair(117 + pair_offset(pair));
  return fold(sum.first ^ key.first, sum.second ^ key.second);
}
TANDEM_FN Digest finish(std::uint64_t high_shares, std::uint64_t low_shares, std::size_t bytes) {
  return {avalanche(~(bytes * kPrime64_2) + high_shares), avalanche(bytes * kPrime64_1 + low_shares)};
}

/// REQUIRES: more than kShortBytes.
TANDEM_FN Digest long_digest(const unsigned char* data, std::size_t bytes) {
  std::uint64_t high = 0, low = 0;
  for (int pair = 0; pair < kPairs; ++pair) {
    const unsigned char* part = data + pair_offset(pair);
    Pair sum = initial_pair(pair);
    const auto add_stripes = [&](std::size_t count) {
      for (std::size_t i = 0; i < count; ++i, part += kStripeBytes)
        sum = accumulate(sum, read_pair(part), stripe_key(i, pair));
    };
    for (std::size_t block = 0; block < full_blocks(bytes); ++block) {
      add_stripes(kBlockStripes);
      sum = scramble(sum, scramble_key(pair));
    }
    add_stripes(rest_stripes(bytes));
    sum = accumulate(sum, read_pair(data + bytes - kStripeBytes + pair_offset(pair)), last_stripe_key(pair));
    high += high_share(sum, pair);
    low += low_share(sum, pair);
  }
  return finish(high, low, bytes);
}

// Short input.

TANDEM_FN Digest digest_of_1_to_3(const unsigned char* data, std::size_t bytes) {
  const std::uint32_t low = (std::uint32_t{data[0]} << 16) | (std::uint32_t{data[bytes / 2]} << 24) |
                            data[bytes - 1] | (static_cast<std::uint32_t>(bytes) << 8);
  const auto swapped = static_cast<std::uint32_t>(swap_bytes(low) >> 32);
  const std::uint32_t high = (swapped << 13) | (swapped >> 19);
  const auto word = [](std::size_t byte) { return secret(byte) & 0xFFFFFFFFu; };
  return {avalanche64(high ^ word(8) ^ word(12)), avalanche64(low ^ word(0) ^ word(4))};
}

TANDEM_FN Digest digest_of_4_to_8(const unsigned char* data, std::size_t bytes) {
  const std::uint64_t input =
      read<std::uint32_t>(data) + (std::uint64_t{read<std::uint32_t>(data + bytes - 4)} << 32);
  const std::uint64_t keyed = input ^ secret(16) ^ secret(24), factor = kPrime64_1 + (bytes << 2);
  std::uint64_t low = keyed * factor, high = high_product(keyed, factor);
  high += low << 1;
  low ^= high >> 3;
  low = shift_xor(shift_xor(low, 35) * 0x9FB21C651E98DF25u, 28);
  return {avalanche(high), low};
}

TANDEM_FN Digest digest_of_9_to_16(const unsigned char* data, std::size_t bytes) {
  const std::uint64_t first = read<std::uint64_t>(data), last = read<std::uint64_t>(data + bytes - 8);
  const std::uint64_t mixed = first ^ last ^ secret(32) ^ secret(40), keyed = last ^ secret(48) ^ secret(56);
  std::uint64_t low = mixed * kPrime64_1, high = high_product(mixed, kPrime64_1);
  low += std::uint64_t{bytes - 1} << 54;
  high += keyed + (keyed & 0xFFFFFFFFu) * (kPrime32_2 - 1);
  low ^= swap_bytes(high);
  return {avalanche(high_product(low, kPrime64_2) + high * kPrime64_2), avalanche(low * kPrime64_2)};
}

TANDEM_FN std::uint64_t mix(Pair input, std::size_t secret_byte) {
  return fold(input.first ^ secret(secret_byte), input.second ^ secret(secret_byte + 8));
}
TANDEM_FN Digest mix_both(Digest sum, Pair a, Pair b, std::size_t secret_byte) {
  sum.low = (sum.low + mix(a, secret_byte)) ^ (b.first + b.second);
  sum.high = (sum.high + mix(b, secret_byte + 16)) ^ (a.first + a.second);
  return sum;
}
TANDEM_FN Digest finish_mixed(Digest sum, std::size_t bytes) {
  return {0 - avalanche(sum.low * kPrime64_1 + sum.high * kPrime64_4 + bytes * kPrime64_2),
          avalanche(sum.low + sum.high)};
}

/// From both ends inwards, the middle first.
TANDEM_FN Digest digest_of_17_to_128(const unsigned char* data, std::size_t bytes) {
  Digest sum{0, bytes * kPrime64_1};
  for (std::size_t i = (bytes - 1) / 32 + 1; i-- > 0;) {
    sum = mix_both(sum, read_pair(data + 16 * i), read_pair(data + bytes - 16 * (i + 1)), 32 * i);
  }
  return finish_mixed(sum, bytes);
}

TANDEM_FN Digest digest_of_129_to_240(const unsigned char* data, std::size_t bytes) {
  Digest sum{0, bytes * kPrime64_1};
  for (std::size_t i = 0; i < bytes / 32; ++i) {
    if (i == 4) sum = {avalanche(sum.high), avalanche(sum.low)};
    const unsigned char* at = data + 32 * i;
    sum = mix_both(sum, read_pair(at), read_pair(at + 16), i < 4 ? 32 * i : 3 + 32 * (i - 4));
  }
  if (bytes / 32 == 4) sum = {avalanche(sum.high), avalanche(sum.low)};
  sum = mix_both(sum, read_pair(data + bytes - 16), read_pair(data + bytes - 32), 103);
  return finish_mixed(sum, bytes);
}

/// REQUIRES: at most kShortBytes. Nothing is read of an empty input.
TANDEM_FN Digest short_digest(const unsigned char* data, std::size_t bytes) {
  if (bytes > 128) return digest_of_129_to_240(data, bytes);
  if (bytes > 16) return digest_of_17_to_128(data, bytes);
  if (bytes > 8) return digest_of_9_to_16(data, bytes);
  if (bytes > 3) return digest_of_4_to_8(data, bytes);
  if (bytes > 0) return digest_of_1_to_3(data, bytes);
  return {avalanche64(secret(80) ^ secret(88)), avalanche64(secret(64) ^ secret(72))};
}

TANDEM_FN Digest digest(const unsigned char* data, std::size_t bytes) {
  return bytes > kShortBytes ? long_digest(data, bytes) : short_digest(data, bytes);
}

}  // namespace tandem::xxh3
