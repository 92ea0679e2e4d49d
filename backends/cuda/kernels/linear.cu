#include <cuda_pipeline_primitives.h>

#include "backends/cuda/kernels/common.cuh"

/// Projections. A lane has V neighbouring chains of the dot product (16 bytes of weights a load), a warp some
/// rows of the weight and some tokens: kRows x kTokens sums at a time.
namespace tandem::cuda {
namespace {

template <class T>
inline constexpr int kV = num::kVector<T>;

struct LinearOperands {
  ConstRows x;
  ConstRows residual;  ///< data null: none
  Rows y;
  std::int64_t weight_stride, tokens, rows, columns;
};

/// 16 bytes of weights.
template <class T>
struct Packed {
  uint4 bits;

  __device__ float operator[](int v) const {
    if constexpr (kV<T> == 4) {
      return num::float_of(v == 0 ? bits.x : v == 1 ? bits.y : v == 2 ? bits.z : bits.w);
    } else {
      const std::uint32_t word = v / 2 == 0 ? bits.x : v / 2 == 1 ? bits.y : v / 2 == 2 ? bits.z : bits.w;
      return num::float_of(v % 2 == 0 ? word << 16 : word & 0xffff0000u);
    }
  }
};

template <int kCount>
__device__ __forceinline__ float join_neighbours(float (&c)[kCount]) {
#pragma unroll
  for (int width = 1; width < kCount; width *= 2) {
#pragma unroll
    for (int i = 0; i + width < kCount; i += 2 * width) c[i] = c[i] + c[i + width];
  }
  return c[0];
}

/// The chains of a warp's rows and tokens. Rows and tokens past the end repeat the last one and are not
/// stored.
template <class T, int kRows, int kTokens>
struct Tile {
  const T* weight[kRows];
  const float* x[kTokens];
  float chains[kRows][kTokens][kV<T>];

  __device__ Tile(const LinearOperands& op, const T* weights, std::int64_t row, std::int64_t token) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      weight[r] = weights + min(row + r, op.rows - 1) * op.weight_stride + lane * kV<T>;
    }
#pragma unroll
    for (int t = 0; t < kTokens; ++t) x[t] = op.x.row(min(token + t, op.tokens - 1)) + lane * kV<T>;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
#pragma unroll
        for (int v = 0; v < kV<T>; ++v) chains[r][t][v] = 0.0f;
      }
    }
  }

  /// Adds the elements at column `at` of packed weights.
  __device__ void add(const Packed<T> (&w)[kRows], std::int64_t at) {
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      float4 fours[kFours];
#pragma unroll
      for (int f = 0; f < kFours; ++f) fours[f] = *reinterpret_cast<const float4*>(x[t] + at + 4 * f);
      add_token(w, t, fours);
    }
  }

  static constexpr int kFours = kV<T> / 4;
  __device__ void add_token(const Packed<T> (&w)[kRows], int t, const float4 (&fours)[kFours]) {
#pragma unroll
    for (int f = 0; f < kFours; ++f) {
      const float values[4] = {fours[f].x, fours[f].y, fours[f].z, fours[f].w};
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          chains[r][t][4 * f + v] = num::fma(w[r][4 * f + v], values[v], chains[r][t][4 * f + v]);
        }
      }
    }
  }

  /// Adds elements one by one where columns end, or where memory is not aligned.
  __device__ void add_single(std::int64_t at, std::int64_t columns) {
    const std::int64_t first = at + (static_cast<int>(threadIdx.x) % kWarp) * kV<T>;
#pragma unroll
    for (int v = 0; v < kV<T>; ++v) {
      if (first + v >= columns) break;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float w = num::widen(weight[r][at + v]);
#pragma unroll
        for (int t = 0; t < kTokens; ++t) chains[r][t][v] = num::fma(w, x[t][at + v], chains[r][t][v]);
      }
    }
  }

  __device__ void store(const LinearOperands& op, std::int64_t row, std::int64_t token) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        const float sum = join_lanes(join_neighbours(chains[r][t]));
        if (threadIdx.x % kWarp != 0 || row + r >= op.rows || token + t >= op.tokens) continue;
        const bool residual = op.residual.data != nullptr;
        op.y.row(token + t)[row + r] = residual ? op.residual.row(token + t)[row + r] + sum : sum;
      }
    }
  }
};

/// How a launch is cut: a warp has kRows rows and kTokens tokens.
template <class T_, int kRows_, int kTokens_, int kThreads_>
struct Cut {
  using T = T_;
  static constexpr int kRows = kRows_, kTokens = kTokens_, kThreads = kThreads_;
  static constexpr int kWarps = kThreads / kWarp;
};

/// Neighbouring blocks have the same rows and other tokens, so that weights are read from memory once.
template <class C, bool kAligned>
__global__ void __launch_bounds__(C::kThreads)
    tile_kernel(const __grid_constant__ LinearOperands op, const typename C::T* __restrict__ weights,
                std::int64_t token_tiles) {
  using T = typename C::T;
  constexpr std::int64_t kChunk = num::kChains<T>;
  const std::int64_t token = (blockIdx.x % token_tiles) * C::kTokens;
  const std::int64_t row = ((blockIdx.x / token_tiles) * C::kWarps + threadIdx.x / kWarp) * C::kRows;
  Tile<T, C::kRows, C::kTokens> tile(op, weights, row, token);
  std::int64_t at = 0;
  wait_for_inputs();
  for (; kAligned && at + kChunk <= op.columns; at += kChunk) {
    Packed<T> w[C::kRows];
#pragma unroll
    for (int r = 0; r < C::kRows; ++r) w[r].bits = __ldg(reinterpret_cast<const uint4*>(tile.weight[r] + at));
    tile.add(w, at);
  }
  for (; at < op.columns; at += kChunk) tile.add_single(at, op.columns);
  tile.store(op, row, token);
}

/// x of a block's tokens in shared memory. Within a chunk first the lanes' first four elements, then their
/// second, so that a warp reads neighbouring memory.
template <class C>
struct SharedX {
  using T = typename C::T;
  static constexpr int kChunk = num::kChains<T>, kFours = kV<T> / 4;
  float4* data;  ///< [chunks][tokens][kFours][kWarp]

  __device__ void fill(const LinearOperands& op, int chunks) const {
    const int fours = chunks * kChunk / 4;
    for (int t = 0; t < C::kTokens; ++t) {
      const auto* from = reinterpret_cast<const float4*>(op.x.row(min(std::int64_t{t}, op.tokens - 1)));
      for (int i = static_cast<int>(threadIdx.x); i < fours; i += C::kThreads) {
        const int chunk = i / (kChunk / 4), lane = i % (kChunk / 4) / kFours, f = i % kFours;
        data[((chunk * C::kTokens + t) * kFours + f) * kWarp + lane] = from[i];
      }
    }
  }
  __device__ float4 at(int chunk, int token, int f) const {
    return data[((chunk * C::kTokens + token) * kFours + f) * kWarp + threadIdx.x % kWarp];
  }
};

/// For one token or a few, as fast as the weights come. A block stays for the whole operator; each of its
/// warps goes through some groups of kRows rows without a pause, kStages chunks ahead of itself: every lane
/// copies the weights that it will need, and only it, into its own places of shared memory, and waits for
/// none but its own copies. The first of them are asked for before x is ready.
template <class C, int kStages>
__global__ void __launch_bounds__(C::kThreads)
    stream_kernel(const __grid_constant__ LinearOperands op, const typename C::T* __restrict__ weights) {
  using T = typename C::T;
  constexpr int kChunk = num::kChains<T>;
  extern __shared__ uint4 shared[];
  uint4* const ring = shared + threadIdx.x;  // [kStages][kRows][kThreads]
  const SharedX<C> x{reinterpret_cast<float4*>(shared + kStages * C::kRows * C::kThreads)};
  const int chunks = static_cast<int>(op.columns / kChunk);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * C::kWarps * C::kRows;
  const std::int64_t first_row = (static_cast<std::int64_t>(warp) * gridDim.x + blockIdx.x) * C::kRows;

  // What is copied next.
  std::int64_t next_row = first_row;
  int next_chunk = 0;
  const T* next[C::kRows];
  const auto point = [&] {
#pragma unroll
    for (int r = 0; r < C::kRows; ++r) {
      next[r] = weights + min(next_row + r, op.rows - 1) * op.weight_stride + lane * kV<T>;
    }
  };
  const auto copy = [&](int stage) {
    if (next_row < op.rows) {
#pragma unroll
      for (int r = 0; r < C::kRows; ++r) {
        __pipeline_memcpy_async(ring + (stage * C::kRows + r) * C::kThreads, next[r], sizeof(uint4));
        next[r] += kChunk;
      }
      if (++next_chunk == chunks) {
        next_chunk = 0;
        next_row += stride;
        point();
      }
    }
    __pipeline_commit();
  };
  point();
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) copy(stage);
  wait_for_inputs();
  x.fill(op, chunks);
  __syncthreads();

  int stage = 0;
  for (std::int64_t row = first_row; row < op.rows; row += stride) {
    Tile<T, C::kRows, C::kTokens> tile(op, weights, row, 0);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      __pipeline_wait_prior(kStages - 1);
      Packed<T> w[C::kRows];
#pragma unroll
      for (int r = 0; r < C::kRows; ++r) w[r].bits = ring[(stage * C::kRows + r) * C::kThreads];
      copy(stage);
      stage = stage + 1 == kStages ? 0 : stage + 1;
#pragma unroll
      for (int t = 0; t < C::kTokens; ++t) {
        float4 fours[SharedX<C>::kFours];
#pragma unroll
        for (int f = 0; f < SharedX<C>::kFours; ++f) fours[f] = x.at(chunk, t, f);
        tile.add_token(w, t, fours);
      }
    }
    const std::int64_t whole = static_cast<std::int64_t>(chunks) * kChunk;
    if (whole < op.columns) tile.add_single(whole, op.columns);
    tile.store(op, row, 0);
  }
}

LinearOperands operands_of(const Linear& op) {
  return {rows(op.x),
          op.residual ? rows(op.residual) : ConstRows{nullptr, 0},
          rows(op.y),
          op.weight.row_stride,
          op.x.rows(),
          op.weight.rows(),
          op.weight.row_elements()};
}

template <class C>
cudaError_t launch_tile(const Linear& op, const Launch& where) {
  const std::int64_t token_tiles = ceil_div(op.x.rows(), C::kTokens);
  const std::int64_t row_tiles = ceil_div(op.weight.rows(), C::kRows * C::kWarps);
  const bool aligned = aligned_rows(op.x) && aligned_rows(op.weight);
  return launch(where, aligned ? tile_kernel<C, true> : tile_kernel<C, false>, token_tiles * row_tiles,
                C::kThreads, 0, operands_of(op), static_cast<const typename C::T*>(op.weight.data),
                token_tiles);
}

template <class C, int kStages, int kBlocksPerSm>
cudaError_t launch_stream(const Linear& op, const Launch& where) {
  constexpr int kChunk = num::kChains<typename C::T>;
  const std::int64_t blocks =
      std::min<std::int64_t>(where.multiprocessors * kBlocksPerSm, ceil_div(op.weight.rows(), C::kRows));
  const std::size_t ring = std::size_t{kStages} * C::kRows * C::kThreads * sizeof(uint4);
  const std::size_t x =
      static_cast<std::size_t>(op.x.row_elements() / kChunk * kChunk) * C::kTokens * sizeof(float);
  const auto kernel = stream_kernel<C, kStages>;
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(ring + x));
  if (status != cudaSuccess) return status;
  return launch(where, kernel, blocks, C::kThreads, ring + x, operands_of(op),
                static_cast<const typename C::T*>(op.weight.data));
}

constexpr std::int64_t kStreamTokens = 4;

bool suits_stream(const Linear& op) {
  const std::int64_t chunk = op.weight.dtype == DType::bf16 ? num::kChains<bf16> : num::kChains<float>;
  // x and the ring share what a multiprocessor has.
  constexpr std::int64_t kMaxSharedX = std::int64_t{140} << 10;
  const std::int64_t tokens = op.x.rows() <= 2 ? op.x.rows() : kStreamTokens;
  return op.x.rows() <= kStreamTokens && op.weight.row_elements() >= chunk &&
         tokens * op.weight.row_elements() * static_cast<std::int64_t>(sizeof(float)) <= kMaxSharedX &&
         aligned_rows(op.x) && aligned_rows(op.weight);
}

template <class T>
cudaError_t linear_stream_of(const Linear& op, const Launch& where) {
  if (op.x.rows() == 1) return launch_stream<Cut<T, 2, 1, 512>, 5, 1>(op, where);
  if (op.x.rows() == 2) return launch_stream<Cut<T, 2, 2, 512>, 5, 1>(op, where);
  return launch_stream<Cut<T, 2, 4, 512>, 5, 1>(op, where);
}

/// Operators that do not suit it take the tiles.
cudaError_t linear_tile(const Linear& op, const Launch& where);
cudaError_t linear_stream(const Linear& op, const Launch& where) {
  if (!suits_stream(op)) return linear_tile(op, where);
  return op.weight.dtype == DType::bf16 ? linear_stream_of<bf16>(op, where)
                                        : linear_stream_of<float>(op, where);
}

/// Any shape. Several tokens share a read of the weights.
cudaError_t linear_tile(const Linear& op, const Launch& where) {
  return op.weight.dtype == DType::bf16 ? launch_tile<Cut<bf16, 4, 4, 256>>(op, where)
                                        : launch_tile<Cut<float, 4, 4, 256>>(op, where);
}

}  // namespace

template <>
std::vector<Variant<Linear>> variants() {
  return {{"stream", suits_stream, linear_stream}, {"tile", nullptr, linear_tile}};
}

}  // namespace tandem::cuda
