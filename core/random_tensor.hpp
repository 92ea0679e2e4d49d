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
  DType dtype = DType::bf16;  ///< f32 | bf16
  Shape shape;
  CounterRandom random{"", 0};
  float deviation = 1;
  float offset = 0;

  std::int64_t bytes() const { return shape.elements() * static_cast<std::int64_t>(size_of(dtype)); }
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

/// What one unit of CounterRandom::normal_units is worth.
inline float step_of(const RandomTensor& tensor) {
  return static_cast<float>(static_cast<double>(tensor.deviation) / CounterRandom::kUnitsPerDeviation);
}

/// Writes elements [begin, end) to `to`, where element `begin` goes.
void write_random(const RandomTensor& tensor, std::int64_t begin, std::int64_t end, void* to);

/// The whole tensor in host memory; one thread. `who` is for the message of Error(out_of_memory).
HostTensor make_host_tensor(std::string_view who, const RandomTensor& tensor);
/// The same with a loop over [0, n) that the caller provides, for several threads.
using ParallelFor =
    std::function<void(std::int64_t n, const std::function<void(std::int64_t, std::int64_t)>&)>;
HostTensor make_host_tensor(std::string_view who, const RandomTensor& tensor,
                            const ParallelFor& parallel_for);

}  // namespace tandem
