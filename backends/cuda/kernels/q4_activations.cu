#include "backends/cuda/kernels/q4_activations.cuh"

namespace tandem::cuda {
namespace {

/// Few, so that the work of one token is spread over many multiprocessors.
constexpr int kThreads = 64;

/// Which four elements of x a thread has.
struct Four {
  std::int64_t token;
  int block, part;

  __device__ Four(std::int64_t i, int fours)
      : token(i / fours),
        block(static_cast<int>(i % fours) / kFours),
        part(static_cast<int>(i % fours) % kFours) {}
  __device__ const float* in(const ConstRows& x) const {
    return x.row(token) + static_cast<std::int64_t>(block) * kQ4Block + 4 * part;
  }
};

__global__ void interleave_kernel(ConstRows x, std::int64_t tokens, int fours, Interleaved to) {
  let_next_in_and_wait_for_inputs();
  const Four four(static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, fours);
  if (four.token >= tokens) return;
  const float* from = four.in(x);
  to.chunk(four.token, four.block / kWarp)[four.part * kWarp + four.block % kWarp] =
      make_float4(from[0], from[1], from[2], from[3]);
}

/// To about a unit in the last place; of a subnormal number infinite.
__device__ __forceinline__ float nearly_inverse(float x) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
}

/// num::q8_level; without its division where x * (1 / scale), which is within 2^-14 of x / scale, is not so
/// near to a half that they could be rounded apart.
__device__ __forceinline__ int q8_level_of(float x, float scale, float inverse) {
  const float near = x * inverse, whole = num::nearest(near);
  const float to_half = num::absolute(num::absolute(near - whole) - 0.5f);
  const bool sure = to_half > 0x1p-10f && num::absolute(near) < 126.5f;  // false for a NaN
  return sure ? static_cast<int>(whole) : num::q8_level(x, scale);
}

template <class T, class Join>
__device__ __forceinline__ T join_block(unsigned lanes, T value, const Join& join) {
#pragma unroll
  for (int o = kFours / 2; o > 0; o /= 2) value = join(value, __shfl_xor_sync(lanes, value, o));
  return value;
}

/// Eight lanes a block.
__global__ void quantize_kernel(ConstRows x, std::int64_t tokens, int fours, Quantized to) {
  let_next_in_and_wait_for_inputs();
  const Four four(static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, fours);
  if (four.token >= tokens) return;
  const unsigned lanes = __activemask();  // whole blocks: eight divides what a warp lacks at the end
  const float* from = four.in(x);
  const float values[4] = {from[0], from[1], from[2], from[3]};
  std::uint32_t largest = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e) largest = max(largest, num::bits_of(values[e]) & 0x7fffffffu);
  largest = join_block(lanes, largest, [](std::uint32_t a, std::uint32_t b) { return max(a, b); });
  const float scale = num::float_of(largest) / 127.0f, inverse = nearly_inverse(scale);
  const bool usable = num::q8_scale_usable(scale);
  int sum = 0;
  std::uint32_t word = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const int level = usable ? q8_level_of(values[e], scale, inverse) : 0;
    sum += level;
    word |= (static_cast<std::uint32_t>(level) & 0xffu) << (8 * e);
  }
  sum = join_block(lanes, sum, [](int a, int b) { return a + b; });
  reinterpret_cast<std::uint32_t*>(to.half(four.token, four.part / 4) + four.block)[four.part % 4] = word;
  if (four.part == 0) to.scale(four.token)[four.block] = make_float2(scale, __int_as_float(8 * sum));
}

template <class To>
cudaError_t launch_fours(const ConstTensor& x, const Launch& where,
                         void (*kernel)(ConstRows, std::int64_t, int, To), const To& to) {
  const std::int64_t fours = x.row_elements() / 4;
  return launch(where, kernel, ceil_div(x.rows() * fours, kThreads), kThreads, 0, rows(x), x.rows(),
                static_cast<int>(fours), to);
}

}  // namespace

cudaError_t lay_out(const ConstTensor& x, const Launch& where, const Interleaved& to) {
  return launch_fours(x, where, interleave_kernel, to);
}

cudaError_t lay_out(const ConstTensor& x, const Launch& where, const Quantized& to) {
  return launch_fours(x, where, quantize_kernel, to);
}

}  // namespace tandem::cuda
