#pragma once

#include "backends/cuda/kernels/common.cuh"
#include "core/q4.hpp"

/// What projections with 4-bit weights read instead of x. Lanes take whole blocks of 32 columns; as x lies,
/// neighbouring lanes would read 128 bytes apart. A small kernel lays it out in scratch memory first, while
/// the projection has been started already and asks for its first weights.
namespace tandem::cuda {

inline constexpr int kFours = static_cast<int>(kQ4Block) / 4;  ///< float4 of a block

/// Exponents under which a nibble at bit 0, 4, ..., 16 of a mantissa counts in ones. Handed to the kernel:
/// with a constant that it knows the compiler takes two logical instructions where one does.
struct Exponents {
  std::uint32_t of[5];

  static Exponents make() {
    Exponents e{};
    for (std::uint32_t i = 0; i < 5; ++i) e.of[i] = (150 - 4 * i) << 23;
    return e;
  }
};

/// x as f32, [token][chunk of 32 blocks][four of a block][lane].
struct Interleaved {
  static constexpr Activations kActivations = Activations::real;
  float4* fours;
  int chunks;
  Exponents exponents;

  static std::int64_t bytes(std::int64_t tokens, std::int64_t blocks) {
    return tokens * ceil_div(blocks, kWarp) * kWarp * kFours * static_cast<std::int64_t>(sizeof(float4));
  }
  static Interleaved at(void* memory, std::int64_t, std::int64_t blocks) {
    return {static_cast<float4*>(memory), static_cast<int>(ceil_div(blocks, kWarp)), Exponents::make()};
  }
  __device__ float4* chunk(std::int64_t token, int chunk) const {
    return fours + (token * chunks + chunk) * (kFours * kWarp);
  }
};

/// x in 8 bits. The levels of the first halves of all blocks lie together, then those of the second halves:
/// they meet the low and the high halves of the weights' bytes. Beside a block's scale there is 8 times the
/// sum of its levels, which turns the weights' nibbles, q + 8, into q.
struct Quantized {
  static constexpr Activations kActivations = Activations::q8;
  uint4* halves;   ///< [token][half][block]
  float2* scales;  ///< [token][block]: the scale; the sum, a whole number, by its bits
  int blocks;

  static std::int64_t bytes(std::int64_t tokens, std::int64_t blocks) {
    return tokens * blocks * static_cast<std::int64_t>(2 * sizeof(uint4) + sizeof(float2));
  }
  static Quantized at(void* memory, std::int64_t tokens, std::int64_t blocks) {
    auto* halves = static_cast<uint4*>(memory);
    return {halves, reinterpret_cast<float2*>(halves + 2 * tokens * blocks), static_cast<int>(blocks)};
  }
  __device__ uint4* half(std::int64_t token, int half) const { return halves + (2 * token + half) * blocks; }
  __device__ float2* scale(std::int64_t token) const { return scales + token * blocks; }
};

/// Enqueue the kernels that fill them from a projection's x.
cudaError_t lay_out(const ConstTensor& x, const Launch& where, const Interleaved& to);
cudaError_t lay_out(const ConstTensor& x, const Launch& where, const Quantized& to);

}  // namespace tandem::cuda
