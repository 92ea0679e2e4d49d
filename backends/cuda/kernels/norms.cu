#include "backends/cuda/kernels/common.cuh"

/// Root-mean-square norms: a block for a row of the hidden size, a warp for a head.
namespace tandem::cuda {
namespace {

/// One thread for each chain of an f32 dot product.
constexpr int kRowThreads = num::kChains<float>;
constexpr int kHeadThreads = 128;
constexpr int kHeadsPerBlock = kHeadThreads / kWarp;

/// Elements of a row that a thread keeps, so that they are read from memory once and all at once. Longer rows
/// are read again where they go on.
constexpr int kKept = 48;

/// num::sum_of_squares by a block of kRowThreads, thread c with chain c; the sum in every thread. The first
/// elements of the chain are in `kept`.
__device__ __forceinline__ float block_sum_of_squares(const float* x, std::int64_t n,
                                                      const float (&kept)[kKept]) {
  __shared__ float lanes[kWarp];
  float chain = 0.0f;
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    if (threadIdx.x + k * kRowThreads < n) chain = num::fma(kept[k], kept[k], chain);
  }
  for (std::int64_t i = threadIdx.x + kKept * kRowThreads; i < n; i += kRowThreads) {
    chain = num::fma(x[i], x[i], chain);
  }
  chain = chain + __shfl_xor_sync(kAllLanes, chain, 1);  // neighbours, then neighbours of those
  chain = chain + __shfl_xor_sync(kAllLanes, chain, 2);
  if (threadIdx.x % 4 == 0) lanes[threadIdx.x / 4] = chain;
  __syncthreads();
  return join_lanes(lanes[threadIdx.x % kWarp]);
}

__device__ __forceinline__ void load_kept(const float* from, std::int64_t n, float (&kept)[kKept]) {
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const std::int64_t i = threadIdx.x + k * kRowThreads;
    kept[k] = i < n ? from[i] : 0.0f;
  }
}

__global__ void __launch_bounds__(kRowThreads)
    rms_norm_kernel(ConstRows x, const float* weight, float eps, std::int64_t n, Rows y) {
  float w[kKept], values[kKept];
  load_kept(weight, n, w);
  wait_for_inputs();
  const float* in = x.row(blockIdx.x);
  float* out = y.row(blockIdx.x);
  load_kept(in, n, values);
  const float r = num::inverse_sqrt(block_sum_of_squares(in, n, values) / static_cast<float>(n) + eps);
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const std::int64_t i = threadIdx.x + k * kRowThreads;
    if (i < n) out[i] = (values[k] * r) * (1.0f + w[k]);
  }
  for (std::int64_t i = threadIdx.x + kKept * kRowThreads; i < n; i += kRowThreads) {
    out[i] = (in[i] * r) * (1.0f + weight[i]);
  }
}

cudaError_t rms_norm(const RmsNorm& op, const Launch& where) {
  return launch(where, rms_norm_kernel, op.x.rows(), kRowThreads, 0, rows(op.x), floats(op.weight),
                static_cast<float>(op.eps), op.x.row_elements(), rows(op.y));
}

/// Which head of which row a warp has.
struct HeadUnit {
  std::int64_t unit, row, head;
  int lane;

  __device__ explicit HeadUnit(std::int64_t heads)
      : unit(static_cast<std::int64_t>(blockIdx.x) * kHeadsPerBlock + threadIdx.x / kWarp),
        row(unit / heads),
        head(unit % heads),
        lane(static_cast<int>(threadIdx.x % kWarp)) {}
};

template <class... Params, class... Args>
cudaError_t launch_heads(const Launch& where, void (*kernel)(Params...), std::int64_t units, Args&&... args) {
  return launch(where, kernel, ceil_div(units, kHeadsPerBlock), kHeadThreads, 0, args...);
}

/// One of q and k.
struct NormalisedHeads {
  ConstRows in;
  Rows out;
  bool scaled;
};

template <bool kAligned>
__global__ void __launch_bounds__(kHeadThreads)
    qk_norm_kernel(NormalisedHeads q, NormalisedHeads k, std::int64_t tokens, std::int64_t heads,
                   std::int64_t n, float eps, float scale) {
  wait_for_inputs();
  const HeadUnit u(2 * heads);  // the heads of q, then those of k
  if (u.row >= tokens) return;
  const NormalisedHeads which = u.head < heads ? q : k;
  const std::int64_t at = (u.head % heads) * n;
  const float* x = which.in.row(u.row) + at;
  float* y = which.out.row(u.row) + at;
  const float r = num::inverse_sqrt(warp_dot<kAligned>(x, x, n) + eps);
  for (std::int64_t i = u.lane; i < n; i += kWarp) {
    const float unit = x[i] * r;
    y[i] = which.scaled ? unit * scale : unit;
  }
}

cudaError_t gdn_qk_norm(const GdnQkNorm& op, const Launch& where) {
  const std::int64_t tokens = op.q.rows(), heads = op.q.shape[1], n = op.q.shape[2];
  const bool aligned = aligned_rows(op.q_in) && aligned_rows(op.k_in) && n % 4 == 0;
  return launch_heads(where, aligned ? qk_norm_kernel<true> : qk_norm_kernel<false>, 2 * tokens * heads,
                      NormalisedHeads{rows(op.q_in), rows(op.q), true},
                      NormalisedHeads{rows(op.k_in), rows(op.k), false}, tokens, heads, n,
                      static_cast<float>(op.eps), static_cast<float>(op.scale));
}

template <bool kAligned>
__global__ void __launch_bounds__(kHeadThreads)
    gated_norm_kernel(ConstRows o, ConstRows z, const float* weight, std::int64_t tokens, std::int64_t heads,
                      std::int64_t n, float eps, Rows y) {
  constexpr int kEarly = 4;  // elements of z that a lane asks for before it needs them: a whole head of 128
  const HeadUnit u(heads);
  wait_for_inputs();
  if (u.row >= tokens) return;
  const float* x = o.row(u.row) + u.head * n;
  const float* gate = z.row(u.row) + u.head * n;
  float* out = y.row(u.row) + u.head * n;
  float early[kEarly];
#pragma unroll
  for (int k = 0; k < kEarly; ++k) early[k] = u.lane + k * kWarp < n ? gate[u.lane + k * kWarp] : 0.0f;
  const float r = num::inverse_sqrt(warp_dot<kAligned>(x, x, n) / static_cast<float>(n) + eps);
  const auto result = [&](std::int64_t i, float g) { return (weight[i] * (x[i] * r)) * num::silu(g); };
#pragma unroll
  for (int k = 0; k < kEarly; ++k) {
    const std::int64_t i = u.lane + k * kWarp;
    if (i < n) out[i] = result(i, early[k]);
  }
  for (std::int64_t i = u.lane + kEarly * kWarp; i < n; i += kWarp) out[i] = result(i, gate[i]);
}

cudaError_t gdn_gated_norm(const GdnGatedNorm& op, const Launch& where) {
  const std::int64_t tokens = op.o.rows(), heads = op.o.shape[1], n = op.o.shape[2];
  const bool aligned = aligned_rows(op.o) && n % 4 == 0;
  return launch_heads(where, aligned ? gated_norm_kernel<true> : gated_norm_kernel<false>, tokens * heads,
                      rows(op.o), rows(op.z), floats(op.weight), tokens, heads, n, static_cast<float>(op.eps),
                      rows(op.y));
}

struct Rotation {
  ConstRows cos, sin;
  const std::int32_t* positions;
  std::int64_t half;
};

template <bool kAligned>
__global__ void __launch_bounds__(kHeadThreads)
    head_norm_rope_kernel(ConstRows x, std::int64_t head_stride, const float* weight, float eps,
                          Rotation rotation, std::int64_t tokens, std::int64_t heads, std::int64_t n,
                          Rows y) {
  wait_for_inputs();
  const HeadUnit u(heads);
  if (u.row >= tokens) return;
  const float* in = x.row(u.row) + u.head * head_stride;
  float* out = y.row(u.row) + u.head * n;
  const float r = num::inverse_sqrt(warp_dot<kAligned>(in, in, n) / static_cast<float>(n) + eps);
  const auto normed = [&](std::int64_t i) { return (in[i] * r) * (1.0f + weight[i]); };
  const std::int64_t half = rotation.half;
  const float* cos = rotation.cos.row(rotation.positions[u.row]);
  const float* sin = rotation.sin.row(rotation.positions[u.row]);
  for (std::int64_t i = u.lane; i < half; i += kWarp) {
    const float x1 = normed(i), x2 = normed(half + i);
    out[i] = num::fma(x1, cos[i], -(x2 * sin[i]));
    out[half + i] = num::fma(x2, cos[i], x1 * sin[i]);
  }
  for (std::int64_t i = 2 * half + u.lane; i < n; i += kWarp) out[i] = normed(i);
}

cudaError_t head_norm_rope(const HeadNormRope& op, const Launch& where) {
  const std::int64_t tokens = op.y.rows(), heads = op.y.shape[1], n = op.y.shape[2];
  const bool aligned = aligned_rows(op.x) && op.head_stride % 4 == 0;
  const Rotation rotation{rows(op.cos), rows(op.sin), indices(op.positions), op.cos.row_elements()};
  return launch_heads(where, aligned ? head_norm_rope_kernel<true> : head_norm_rope_kernel<false>,
                      tokens * heads, rows(op.x), op.head_stride, floats(op.weight),
                      static_cast<float>(op.eps), rotation, tokens, heads, n, rows(op.y));
}

}  // namespace

template <>
std::vector<Variant<RmsNorm>> variants() {
  return {{"block", nullptr, rms_norm}};
}
template <>
std::vector<Variant<GdnQkNorm>> variants() {
  return {{"warp", nullptr, gdn_qk_norm}};
}
template <>
std::vector<Variant<GdnGatedNorm>> variants() {
  return {{"warp", nullptr, gdn_gated_norm}};
}
template <>
std::vector<Variant<HeadNormRope>> variants() {
  return {{"warp", nullptr, head_norm_rope}};
}

}  // namespace tandem::cuda
