#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backends/cuda/kernels.hpp"
#include "core/reduce.hpp"

/// What the kernels share: launching, the order of sums, segments.
namespace tandem::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

/// Every kernel calls this before it reads what another kernel wrote or writes what another may still read.
/// Before it, only weights and parameters may be read. On devices that can, the kernel was started early
/// (Launch::programmatic) and waits here until the one before is done; from here on the next one may be
/// started. In this order only two kernels are ever under way, the second of them waiting.
__device__ __forceinline__ void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// The same for a kernel that only prepares what the next one reads: that one is let in before this one
/// waits. It must read nothing but weights and parameters before its own wait, which ends when this kernel is
/// done and with it everything older.
__device__ __forceinline__ void let_next_in_and_wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

template <class... Params, class... Args>
cudaError_t launch(const Launch& where, void (*kernel)(Params...), std::int64_t blocks, int threads,
                   std::size_t shared_bytes, Args&&... args) {
  constexpr std::int64_t kMaxBlocks = 0x7fffffff;
  if (blocks == 0) return cudaSuccess;
  if (blocks > kMaxBlocks) return cudaErrorInvalidConfiguration;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = where.stream;
  config.attrs = &early;
  config.numAttrs = where.programmatic ? 1 : 0;
  where.state_written = false;
  where.laid_out = {};
  return cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Rows of f32 with a stride, as kernels get them.
struct Rows {
  float* data;
  std::int64_t stride;

  __device__ float* row(std::int64_t i) const { return data + i * stride; }
};
struct ConstRows {
  const float* data;
  std::int64_t stride;

  __device__ const float* row(std::int64_t i) const { return data + i * stride; }
};

inline Rows rows(const Tensor& t) { return {static_cast<float*>(t.data), t.row_stride}; }
inline ConstRows rows(const ConstTensor& t) { return {static_cast<const float*>(t.data), t.row_stride}; }
inline const float* floats(const ConstTensor& t) { return static_cast<const float*>(t.data); }
inline const std::int32_t* indices(const ConstTensor& t) { return static_cast<const std::int32_t*>(t.data); }

/// Whether a vector, or every row, can be read 16 bytes at a time.
template <class AnyTensor>
bool aligned_rows(const AnyTensor& t) {
  const bool one_row = t.shape.rank <= 1 || t.rows() == 1;
  const std::int64_t row_bytes = t.row_stride * static_cast<std::int64_t>(size_of(t.dtype));
  return reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && (one_row || row_bytes % 16 == 0);
}

/// num::join_lanes, with the sum in every lane: a butterfly adds the same pairs.
__device__ __forceinline__ float join_lanes(float sum) {
#pragma unroll
  for (int o = kWarp / 2; o > 0; o /= 2) sum = sum + __shfl_xor_sync(kAllLanes, sum, o);
  return sum;
}

__device__ __forceinline__ float join4(float4 c) { return (c.x + c.y) + (c.z + c.w); }

/// num::dot of f32 by one warp; the sum in every lane.
template <bool kAligned>
__device__ __forceinline__ float warp_dot(const float* a, const float* b, std::int64_t n) {
  float4 chain = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (std::int64_t i = 4 * static_cast<std::int64_t>(threadIdx.x % kWarp); i < n; i += 4 * kWarp) {
    if (kAligned && i + 4 <= n) {
      const float4 x = *reinterpret_cast<const float4*>(a + i), y = *reinterpret_cast<const float4*>(b + i);
      chain.x = num::fma(x.x, y.x, chain.x);
      chain.y = num::fma(x.y, y.y, chain.y);
      chain.z = num::fma(x.z, y.z, chain.z);
      chain.w = num::fma(x.w, y.w, chain.w);
    } else {
      chain.x = num::fma(a[i], b[i], chain.x);
      if (i + 1 < n) chain.y = num::fma(a[i + 1], b[i + 1], chain.y);
      if (i + 2 < n) chain.z = num::fma(a[i + 2], b[i + 2], chain.z);
      if (i + 3 < n) chain.w = num::fma(a[i + 3], b[i + 3], chain.w);
    }
  }
  return join_lanes(join4(chain));
}

}  // namespace tandem::cuda
