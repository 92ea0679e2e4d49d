#pragma once

#include <cstdint>
#include <string_view>

namespace tandem {

/// splitmix64's finaliser (Steele, Lea, Flood 2014): a bijection of 64 bits that mixes well.
constexpr std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

inline constexpr std::uint64_t kGoldenGamma = 0x9E3779B97F4A7C15u;

/// FNV-1a, 64 bits.
constexpr std::uint64_t fnv1a64(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

/// A counter-based generator: value i is a pure function of (stream name, seed, i), so that any part of a
/// stream can be made anywhere, in any order, on any machine.
class CounterRandom {
 public:
  constexpr CounterRandom(std::string_view stream, std::uint64_t seed)
      : key_(fnv1a64(stream) ^ (seed * kGoldenGamma)) {}

  constexpr std::uint64_t bits(std::uint64_t i) const { return mix64(key_ + (i + 1) * kGoldenGamma); }

  /// Uniform in [0, 1), 53 bits.
  constexpr double uniform(std::uint64_t i) const { return static_cast<double>(bits(i) >> 11) * 0x1p-53; }

  /// Nearly normal with mean 0: the sum of four 16-bit fields (Irwin-Hall) less its mean, within +-131070.
  constexpr std::int32_t normal_units(std::uint64_t i) const {
    const std::uint64_t z = bits(i);
    const std::uint64_t sum = (z & 0xFFFF) + ((z >> 16) & 0xFFFF) + ((z >> 32) & 0xFFFF) + (z >> 48);
    return static_cast<std::int32_t>(sum) - 131070;
  }
  /// Standard deviation of normal_units.
  static constexpr double kUnitsPerDeviation = 37837.0;

  /// Mean 0, variance 1, nearly normal, within +-3.47, exact in double.
  constexpr double normal(std::uint64_t i) const {
    return static_cast<double>(normal_units(i)) / kUnitsPerDeviation;
  }

 private:
  std::uint64_t key_;
};

}  // namespace tandem
