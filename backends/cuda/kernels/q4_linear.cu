#include "backends/cuda/kernels/q4_activations.cuh"
#include "backends/cuda/kernels/q4_linear.cuh"

/// Projections with 4-bit weights. A lane of a warp takes whole blocks, 16 bytes of levels and a scale, as
/// the order of the sums has it: block b belongs to lane b mod 32, a chunk of 32 blocks to the warp.
namespace tandem::cuda {
namespace {

/// A block of weights as it lies.
struct Q4Bits {
  uint4 levels;
  unsigned short scale;

  __device__ std::uint32_t word(int w) const {
    return w == 0 ? levels.x : w == 1 ? levels.y : w == 2 ? levels.z : levels.w;
  }
  __device__ float d() const {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(scale));
    return wide;
  }
};

/// Weights go past the first-level cache, which x needs.
__device__ __forceinline__ Q4Bits load_block(const uint4* levels, const unsigned short* scales) {
  Q4Bits bits;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits.levels.x), "=r"(bits.levels.y), "=r"(bits.levels.z), "=r"(bits.levels.w)
               : "l"(levels));
  asm volatile("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=h"(bits.scale) : "l"(scales));
  return bits;
}

/// The level whose nibble is at bit kLow. In a mantissa under the right exponent it is 2^k + nibble; what was
/// added goes with the 8 in one exact subtraction.
template <int kLow>
__device__ __forceinline__ float unpacked(std::uint32_t bits, const Exponents& exponents) {
  constexpr float kOffset = static_cast<float>(1 << (23 - kLow)) + 8.0f;
  return num::float_of((bits & (0xfu << kLow)) | exponents.of[kLow / 4]) - kOffset;
}

/// Levels 4 * four .. 4 * four + 3 of a block. Nibbles that would reach into the exponent are moved down
/// together.
__device__ __forceinline__ void unpack(const Q4Bits& block, int four, const Exponents& e, float (&q)[4]) {
  const std::uint32_t word = block.word(four % 4), upper = word >> 12;
  if (four < 4) {
    q[0] = unpacked<0>(word, e), q[1] = unpacked<8>(word, e), q[2] = unpacked<16>(word, e);
    q[3] = unpacked<12>(upper, e);
  } else {
    q[0] = unpacked<4>(word, e), q[1] = unpacked<12>(word, e);
    q[2] = unpacked<8>(upper, e), q[3] = unpacked<16>(upper, e);
  }
}

template <int kTokens, int kRows>
__device__ __forceinline__ void add_chunk(const Interleaved& x, const Q4Bits (&w)[kRows],
                                          const std::int64_t (&tokens)[kTokens], int chunk,
                                          float (&sums)[kTokens][kRows]) {
  float t[kTokens][kRows] = {};
#pragma unroll
  for (int f = 0; f < kFours; ++f) {
    float4 fours[kTokens];
#pragma unroll
    for (int i = 0; i < kTokens; ++i) fours[i] = x.chunk(tokens[i], chunk)[f * kWarp + threadIdx.x % kWarp];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float q[4];
      unpack(w[r], f, x.exponents, q);
#pragma unroll
      for (int i = 0; i < kTokens; ++i) {
        t[i][r] = num::fma(q[0], fours[i].x, t[i][r]);
        t[i][r] = num::fma(q[1], fours[i].y, t[i][r]);
        t[i][r] = num::fma(q[2], fours[i].z, t[i][r]);
        t[i][r] = num::fma(q[3], fours[i].w, t[i][r]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kTokens; ++i) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) sums[i][r] = num::fma(w[r].d(), t[i][r], sums[i][r]);
  }
}

/// sum + the four products of unsigned and signed bytes.
__device__ __forceinline__ int dp4a(std::uint32_t a, std::uint32_t b, int sum) {
  int result;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

/// The high halves of the weights' bytes are summed as they lie, 16 times too large.
template <int kTokens, int kRows>
__device__ __forceinline__ void add_chunk(const Quantized& x, const Q4Bits (&w)[kRows],
                                          const std::int64_t (&tokens)[kTokens], int chunk,
                                          float (&sums)[kTokens][kRows]) {
  const int block = chunk * kWarp + static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int i = 0; i < kTokens; ++i) {
    const uint4 low = x.half(tokens[i], 0)[block], high = x.half(tokens[i], 1)[block];
    const float2 scale = x.scale(tokens[i])[block];
    const std::uint32_t lows[4] = {low.x, low.y, low.z, low.w}, highs[4] = {high.x, high.y, high.z, high.w};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      int t = -__float_as_int(scale.y), t16 = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        t = dp4a(w[r].word(k) & 0x0f0f0f0fu, lows[k], t);
        t16 = dp4a(w[r].word(k) & 0xf0f0f0f0u, highs[k], t16);
      }
      sums[i][r] = num::fma(static_cast<float>(t + (t16 >> 4)), w[r].d() * scale.x, sums[i][r]);
    }
  }
}

struct Q4Operands {
  const uint4* levels;
  const unsigned short* scales;
  ConstRows residual;  ///< data null: none
  Rows y;
  std::int64_t tokens, rows;
  int blocks;  ///< of a row
};

/// How a launch is cut: a warp has kRows rows and kTokens tokens, with kAhead chunks of weights asked for
/// ahead of the one that it computes.
template <class X_, int kRows_, int kTokens_, int kAhead_, int kBlocksPerSm_>
struct Q4Cut {
  using X = X_;
  static constexpr int kRows = kRows_, kTokens = kTokens_, kAhead = kAhead_, kBlocksPerSm = kBlocksPerSm_;
  static constexpr int kThreads = 128, kWarps = kThreads / kWarp;

  static std::int64_t row_tiles(std::int64_t rows) { return ceil_div(rows, kRows * kWarps); }
  /// All warps of a token are under way at once.
  static bool fits(std::int64_t rows, const Launch& where) {
    return row_tiles(rows) <= std::int64_t{where.multiprocessors} * kBlocksPerSm;
  }
};

/// Neighbouring blocks have the same rows and other tokens, so that weights are read from memory once. Rows
/// and tokens past the end repeat the last one and are not stored.
template <class C, bool kOneTile>
__global__ void __launch_bounds__(C::kThreads, C::kBlocksPerSm)
    q4_linear_kernel(const __grid_constant__ Q4Operands op, const typename C::X x, unsigned token_tiles) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const unsigned tile = kOneTile ? blockIdx.x : blockIdx.x / token_tiles;
  const std::int64_t first_token = kOneTile ? 0 : std::int64_t{blockIdx.x - tile * token_tiles} * C::kTokens;
  const std::int64_t first_row = (std::int64_t{tile} * C::kWarps + threadIdx.x / kWarp) * C::kRows;
  const uint4* levels[C::kRows];
  const unsigned short* scales[C::kRows];
  std::int64_t tokens[C::kTokens];
#pragma unroll
  for (int r = 0; r < C::kRows; ++r) {
    const std::int64_t row = min(first_row + r, op.rows - 1);
    levels[r] = op.levels + row * op.blocks;
    scales[r] = op.scales + row * op.blocks;
  }
#pragma unroll
  for (int t = 0; t < C::kTokens; ++t) tokens[t] = min(first_token + t, op.tokens - 1);

  Q4Bits w[C::kAhead][C::kRows];
  const auto load = [&](int u, int chunk) {
    const int block = chunk * kWarp + lane;
    if (block >= op.blocks) return;
#pragma unroll
    for (int r = 0; r < C::kRows; ++r) w[u][r] = load_block(levels[r] + block, scales[r] + block);
  };
#pragma unroll
  for (int u = 0; u < C::kAhead; ++u) load(u, u);
  wait_for_inputs();
  float sums[C::kTokens][C::kRows] = {};
  for (int chunk = 0; chunk * kWarp < op.blocks; chunk += C::kAhead) {
#pragma unroll
    for (int u = 0; u < C::kAhead; ++u) {
      if ((chunk + u) * kWarp + lane < op.blocks) add_chunk(x, w[u], tokens, chunk + u, sums);
      load(u, chunk + u + C::kAhead);
    }
  }
#pragma unroll
  for (int t = 0; t < C::kTokens; ++t) {
#pragma unroll
    for (int r = 0; r < C::kRows; ++r) {
      const float sum = join_lanes(sums[t][r]);
      const std::int64_t row = first_row + r, token = first_token + t;
      if (lane != 0 || row >= op.rows || token >= op.tokens) continue;
      op.y.row(token)[row] = op.residual.data != nullptr ? op.residual.row(token)[row] + sum : sum;
    }
  }
}

LaidOut laid_out_of(const Linear& op) {
  return {op.x.data, op.x.rows(), op.x.row_stride, op.x.row_elements(), op.activations};
}

bool overlap(const ConstTensor& a, const ConstTensor& b) {
  const auto begin = [](const ConstTensor& t) { return reinterpret_cast<std::uintptr_t>(t.data); };
  const auto end = [&](const ConstTensor& t) {
    const std::int64_t elements = (t.rows() - 1) * t.row_stride + t.row_elements();
    return begin(t) + static_cast<std::uintptr_t>(elements) * sizeof(float);
  };
  return begin(a) < end(b) && begin(b) < end(a);
}

template <class C>
cudaError_t launch_q4_linear(const Linear& op, const Launch& where) {
  using X = typename C::X;
  // Indices of blocks are 32 bits wide in the kernels.
  constexpr std::int64_t kMostColumns = std::int64_t{1} << 30;
  if (op.weight.row_elements() > kMostColumns) return cudaErrorInvalidValue;
  const Q4Matrix q4 = q4_matrix(op.weight);
  if (reinterpret_cast<std::uintptr_t>(q4.levels) % sizeof(uint4) != 0) return cudaErrorMisalignedAddress;
  void* scratch = nullptr;
  const auto bytes = static_cast<std::size_t>(X::bytes(op.x.rows(), q4.row_blocks));
  cudaError_t status = where.arguments->scratch(bytes, &scratch);
  if (status != cudaSuccess) return status;
  const X x = X::at(scratch, op.x.rows(), q4.row_blocks);
  const LaidOut wanted = laid_out_of(op);
  if (where.laid_out != wanted) status = lay_out(op.x, where, x);
  if (status != cudaSuccess) return status;
  const Q4Operands operands{reinterpret_cast<const uint4*>(q4.levels),
                            reinterpret_cast<const unsigned short*>(q4.scales),
                            op.residual ? rows(op.residual) : ConstRows{nullptr, 0},
                            rows(op.y),
                            op.x.rows(),
                            op.weight.rows(),
                            static_cast<int>(q4.row_blocks)};
  const std::int64_t token_tiles = ceil_div(operands.tokens, C::kTokens);
  const auto start = [&](auto kernel) {
    return launch(where, kernel, token_tiles * C::row_tiles(operands.rows), C::kThreads, 0, operands, x,
                  static_cast<unsigned>(token_tiles));
  };
  status = token_tiles == 1 ? start(q4_linear_kernel<C, true>) : start(q4_linear_kernel<C, false>);
  if (!overlap(op.x, op.y)) where.laid_out = wanted;
  return status;
}

/// Rows so long that asking far ahead pays.
constexpr std::int64_t kLongRow = 8192;

/// The cuts that were best at the shapes of a 27B model (README.md): as many rows as can be under way at
/// once.
cudaError_t rows_of_quantized(const Linear& op, const Launch& where) {
  using Long = Q4Cut<Quantized, 2, 1, 5, 5>;
  using Few = Q4Cut<Quantized, 2, 1, 3, 6>;
  using Many = Q4Cut<Quantized, 2, 1, 1, 10>;
  const std::int64_t rows = op.weight.rows();
  if (Long::fits(rows, where) && op.weight.row_elements() >= kLongRow)
    return launch_q4_linear<Long>(op, where);
  return Few::fits(rows, where) ? launch_q4_linear<Few>(op, where) : launch_q4_linear<Many>(op, where);
}

cudaError_t rows_of_reals(const Linear& op, const Launch& where) {
  using Long = Q4Cut<Interleaved, 2, 1, 4, 5>;
  using Few = Q4Cut<Interleaved, 2, 1, 3, 6>;
  using Wide = Q4Cut<Interleaved, 4, 1, 1, 5>;
  const std::int64_t rows = op.weight.rows();
  if (Long::fits(rows, where) && op.weight.row_elements() >= kLongRow)
    return launch_q4_linear<Long>(op, where);
  if (Few::fits(rows, where) || !Wide::fits(rows, where)) return launch_q4_linear<Few>(op, where);
  return launch_q4_linear<Wide>(op, where);
}

}  // namespace

cudaError_t q4_linear_rows(const Linear& op, const Launch& where) {
  return op.activations == Activations::q8 ? rows_of_quantized(op, where) : rows_of_reals(op, where);
}

cudaError_t q4_linear_tile(const Linear& op, const Launch& where) {
  return op.activations == Activations::q8 ? launch_q4_linear<Q4Cut<Quantized, 4, 4, 1, 4>>(op, where)
                                           : launch_q4_linear<Q4Cut<Interleaved, 2, 4, 1, 4>>(op, where);
}

}  // namespace tandem::cuda
