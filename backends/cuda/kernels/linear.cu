#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/q4_linear.cuh"

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
  std::int64_t weight_stride, tokens, rows;
  int columns;
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
  __device__ void add(const Packed<T> (&w)[kRows], int at) {
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
  __device__ void add_single(int at, int columns) {
    const int first = at + (static_cast<int>(threadIdx.x) % kWarp) * kV<T>;
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

/// How a launch is cut: a warp has kRows rows and kTokens tokens, with kUnroll chunks of weights asked for at
/// a time.
template <class T_, int kRows_, int kTokens_, int kUnroll_, int kThreads_, int kBlocksPerSm_>
struct Cut {
  using T = T_;
  static constexpr int kRows = kRows_, kTokens = kTokens_, kUnroll = kUnroll_;
  static constexpr int kThreads = kThreads_, kBlocksPerSm = kBlocksPerSm_;
  static constexpr int kWarps = kThreads / kWarp;
};

/// 16 bytes of weights that go past the first-level cache, which x needs.
template <class T>
__device__ __forceinline__ Packed<T> load_once(const T* from) {
  Packed<T> p;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(p.bits.x), "=r"(p.bits.y), "=r"(p.bits.z), "=r"(p.bits.w)
               : "l"(from));
  return p;
}

/// Brings a row into the first-level cache without waiting for it. All warps need the same elements at about
/// the same time: without this each of them would wait for each piece.
template <int kThreads>
__device__ __forceinline__ void warm(const float* row, int n) {
  constexpr int kLine = 32;
  for (int i = static_cast<int>(threadIdx.x) * kLine; i < n; i += kThreads * kLine) {
    float unused;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(unused) : "l"(row + i));
  }
}

/// Neighbouring blocks have the same rows and other tokens, so that weights are read from memory once. The
/// first weights are asked for before x is ready.
template <class C, bool kAligned, bool kOneTile>
__global__ void __launch_bounds__(C::kThreads, C::kBlocksPerSm)
    linear_kernel(const __grid_constant__ LinearOperands op, const typename C::T* __restrict__ weights,
                  unsigned token_tiles) {
  using T = typename C::T;
  constexpr int kChunk = num::kChains<T>, kStep = C::kUnroll * kChunk;
  const int columns = op.columns;
  const std::int64_t token = kOneTile ? 0 : std::int64_t{blockIdx.x % token_tiles} * C::kTokens;
  const unsigned block = kOneTile ? blockIdx.x : blockIdx.x / token_tiles;
  const std::int64_t row = (std::int64_t{block} * C::kWarps + threadIdx.x / kWarp) * C::kRows;
  Tile<T, C::kRows, C::kTokens> tile(op, weights, row, token);
  int at = 0;
  if constexpr (kAligned) {
    Packed<T> w[C::kUnroll][C::kRows];
    const auto load = [&](int from) {
#pragma unroll
      for (int u = 0; u < C::kUnroll; ++u) {
#pragma unroll
        for (int r = 0; r < C::kRows; ++r) w[u][r] = load_once(tile.weight[r] + from + u * kChunk);
      }
    };
    if (kStep <= columns) load(0);
    wait_for_inputs();
#pragma unroll
    for (int t = 0; t < C::kTokens; ++t) {
      warm<C::kThreads>(op.x.row(min(token + t, op.tokens - 1)), columns);
    }
    while (at + kStep <= columns) {
#pragma unroll
      for (int u = 0; u < C::kUnroll; ++u) tile.add(w[u], at + u * kChunk);
      at += kStep;
      if (at + kStep <= columns) load(at);
    }
    for (; at + kChunk <= columns; at += kChunk) {
      Packed<T> one[C::kRows];
#pragma unroll
      for (int r = 0; r < C::kRows; ++r) one[r] = load_once(tile.weight[r] + at);
      tile.add(one, at);
    }
  } else {
    wait_for_inputs();
  }
  for (; at < columns; at += kChunk) tile.add_single(at, columns);
  tile.store(op, row, token);
}

template <class C>
cudaError_t launch_linear(const Linear& op, const Launch& where) {
  // Indices of elements are 32 bits wide in the kernel.
  constexpr std::int64_t kMostColumns = std::int64_t{1} << 30;
  if (op.weight.row_elements() > kMostColumns) return cudaErrorInvalidValue;
  const LinearOperands operands{rows(op.x),
                                op.residual ? rows(op.residual) : ConstRows{nullptr, 0},
                                rows(op.y),
                                op.weight.row_stride,
                                op.x.rows(),
                                op.weight.rows(),
                                static_cast<int>(op.weight.row_elements())};
  const std::int64_t token_tiles = ceil_div(operands.tokens, C::kTokens);
  const std::int64_t row_tiles = ceil_div(operands.rows, C::kRows * C::kWarps);
  const bool aligned = aligned_rows(op.x) && aligned_rows(op.weight);
  const auto start = [&](auto kernel) {
    return launch(where, kernel, token_tiles * row_tiles, C::kThreads, 0, operands,
                  static_cast<const typename C::T*>(op.weight.data), static_cast<unsigned>(token_tiles));
  };
  if (!aligned) return start(linear_kernel<C, false, false>);
  return token_tiles == 1 ? start(linear_kernel<C, true, true>) : start(linear_kernel<C, true, false>);
}

/// As fast as the weights come. The numbers are those with which every shape of a 27B model comes to 90 % of
/// the copy bandwidth (README.md); most others are better at one shape and much worse at another.
cudaError_t linear_rows(const Linear& op, const Launch& where) {
  if (op.weight.dtype == DType::q4) return q4_linear_rows(op, where);
  return op.weight.dtype == DType::bf16 ? launch_linear<Cut<bf16, 2, 1, 8, 64, 6>>(op, where)
                                        : launch_linear<Cut<float, 2, 1, 5, 128, 5>>(op, where);
}

/// Several tokens share a read of the weights.
cudaError_t linear_tile(const Linear& op, const Launch& where) {
  if (op.weight.dtype == DType::q4) return q4_linear_tile(op, where);
  return op.weight.dtype == DType::bf16 ? launch_linear<Cut<bf16, 4, 2, 2, 128, 3>>(op, where)
                                        : launch_linear<Cut<float, 4, 4, 2, 128, 3>>(op, where);
}

}  // namespace

template <>
std::vector<Variant<Linear>> variants() {
  return {{"tile", [](const Linear& op) { return op.x.rows() > 1; }, linear_tile},
          {"rows", nullptr, linear_rows}};
}

}  // namespace tandem::cuda
