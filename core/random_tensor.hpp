#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/numerics.hpp"
#include "core/random.hpp"
#include "core/tensor.hpp"

namespace tandem {

/// A tensor of random values that are computed where they are needed instead of being stored: element i is a
/// function of (key, i) alone, in single precision and integers, so that every backend makes the same bits.
/// Mean `offset`, standard deviation `deviation`, nearly normal, within 3.47 deviations.
struct RandomTensor {
  DType dtype = DType::bf16;  ///< f32 | bf16 | q4, whose offset is 0
  Shape shape;
  CounterRandom random{"", 0};
  float deviation = 1;
  float offset = 0;

  std::int64_t bytes() const { return storage_bytes(dtype, shape.elements()); }
};

/// Nearest bf16, ties to even, of a finite number.
TANDEM_FN bf16 round_to_bf16(float x) {
  const std::uint32_t bits = num::bits_of(x);
  return bf16{static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

/// Element i as f32; for a bf16 tensor it is rounded once more. `step` is deviation / CounterRandom's unit.
TANDEM_FN float random_element(const CounterRandom& random, float step, float offset, std::uint64_t i) {
  return offset + static_cast<float>(random.normal_units(i)) * step;
}

/// Level i of a q4 tensor: of deviation kQ4LevelDeviation, nearly normal.
TANDEM_FN std::int32_t random_q4_level(const CounterRandom& random, std::uint64_t i) {
  const std::int32_t level = (random.normal_units(i) + (1 << 13)) >> 14;
  return level > 7 ? 7 : level;  // at least -8 as it is
}
inline constexpr double kQ4LevelDeviation = CounterRandom::kUnitsPerDeviation / (1 << 14);

/// Scale of block b of a q4 tensor: 3/4 to 5/4 of the tensor's deviation / kQ4LevelDeviation.
TANDEM_FN f16 random_q4_scale(const CounterRandom& random, float usual, std::uint64_t b) {
  const std::uint64_t bits = random.bits((std::uint64_t{1} << 62) + b) & 1023;
  return num::round_to_f16(usual * (0.75f + static_cast<float>(bits) * 0x1p-11f));
}

/// What one unit of CounterRandom::normal_units is worth.
inline float step_of(const RandomTensor& tensor) {
  return static_cast<float>(static_cast<double>(tensor.deviation) / CounterRandom::kUnitsPerDeviation);
}

inline float usual_q4_scale(const RandomTensor& tensor) {
  return static_cast<float>(static_cast<double>(tensor.deviation) / kQ4LevelDeviation);
}

/// Writes blocks [begin, end) of a q4 tensor into the memory of all of it.
void write_random_q4(const RandomTensor& tensor, std::int64_t begin, std::int64_t end, void* to);

/// Writes elements [begin, end) of a tensor that is not q4 to `to`, where element `begin` goes.
void write_random(const RandomTensor& tensor, std::int64_t begin, std::int64_t end, void* to);

/// The whole tensor in host memory; one thread. `who` is for the message of Error(out_of_memory).
HostTensor make_host_tensor(std::string_view who, const RandomTensor& tensor);
/// The same with a loop over [0, n) that the caller provides, for several threads.
using ParallelFor =
    std::function<void(std::int64_t n, const std::function<void(std::int64_t, std::int64_t)>&)>;
HostTensor make_host_tensor(std::string_view who, const RandomTensor& tensor,
                            const ParallelFor& parallel_for);

}  // namespace tandem
