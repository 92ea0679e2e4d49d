#include "backends/cuda/kernels/common.cuh"

/// Root-mean-square norms: a block for a row of the hidden size, a warp for a head.
namespace tandem::cuda {
namespace {

constexpr int kRowThreads = 256;
constexpr int kHeadThreads = 128;
constexpr int kHeadsPerBlock = kHeadThreads / kWarp;

/// Rows up to this size are kept in shared memory between the sum and the result.
constexpr std::int64_t kMaxSharedFloats = std::int64_t{48} * 1024 / sizeof(float);

/// Weights that a thread asks for before x is there: four at a time, for rows of up to 8192.
constexpr int kEarlyFours = 8;

/// Copies a row to shared memory, all threads together.
__device__ __forceinline__ void copy_row(const float* from, std::int64_t n, bool aligned, float* to) {
  if (aligned) {
#pragma unroll 8
    for (std::int64_t i = 4 * threadIdx.x; i < n; i += 4 * kRowThreads) {
      *reinterpret_cast<float4*>(to + i) = *reinterpret_cast<const float4*>(from + i);
    }
  } else {
    for (std::int64_t i = threadIdx.x; i < n; i += kRowThreads) to[i] = from[i];
  }
}

/// A block for a row. Every warp sums all of it, which is cheaper than to wait for one that does.
/// kAligned: rows and weights can be read 16 bytes at a time and end at a multiple of that.
template <bool kAligned>
__global__ void __launch_bounds__(kRowThreads)
    rms_norm_kernel(ConstRows x, const float* weight, float eps, std::int64_t n, bool shared, Rows y) {
  extern __shared__ __align__(16) float kept[];
  float4 w[kEarlyFours];
  if constexpr (kAligned) {
#pragma unroll
    for (int k = 0; k < kEarlyFours; ++k) {
      const std::int64_t i = 4 * (static_cast<std::int64_t>(threadIdx.x) + k * kRowThreads);
      if (i < n) w[k] = *reinterpret_cast<const float4*>(weight + i);
    }
  }
  wait_for_inputs();
  const float* row = x.row(blockIdx.x);
  if (shared) {
    copy_row(row, n, kAligned, kept);
    __syncthreads();
    row = kept;
  }
  float* out = y.row(blockIdx.x);
  const float r = num::inverse_sqrt(warp_dot<kAligned>(row, row, n) / static_cast<float>(n) + eps);
  std::int64_t from = 0;
  if constexpr (kAligned) {
#pragma unroll
    for (int k = 0; k < kEarlyFours; ++k) {
      const std::int64_t i = 4 * (static_cast<std::int64_t>(threadIdx.x) + k * kRowThreads);
      if (i >= n) continue;
      const float4 v = *reinterpret_cast<const float4*>(row + i);
      *reinterpret_cast<float4*>(out + i) =
          make_float4((v.x * r) * (1.0f + w[k].x), (v.y * r) * (1.0f + w[k].y), (v.z * r) * (1.0f + w[k].z),
                      (v.w * r) * (1.0f + w[k].w));
    }
    from = 4 * kEarlyFours * kRowThreads;
  }
  for (std::int64_t i = from + threadIdx.x; i < n; i += kRowThreads)
    out[i] = (row[i] * r) * (1.0f + weight[i]);
}

cudaError_t rms_norm(const RmsNorm& op, const Launch& where) {
  const std::int64_t n = op.x.row_elements();
  const bool shared = n <= kMaxSharedFloats;
  const bool aligned = aligned_rows(op.x) && aligned_rows(op.weight) && aligned_rows(op.y) && n % 4 == 0;
  return launch(where, aligned ? rms_norm_kernel<true> : rms_norm_kernel<false>, op.x.rows(), kRowThreads,
                shared ? static_cast<std::size_t>(n) * sizeof(float) : 0, rows(op.x), floats(op.weight),
                static_cast<float>(op.eps), n, shared, rows(op.y));
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
  constexpr int kEarly = 4;  // elements that a lane asks for before it needs them: a whole head of 128
  const HeadUnit u(heads);
  float w[kEarly];
#pragma unroll
  for (int k = 0; k < kEarly; ++k) w[k] = u.lane + k * kWarp < n ? weight[u.lane + k * kWarp] : 0.0f;
  wait_for_inputs();
  if (u.row >= tokens) return;
  const float* x = o.row(u.row) + u.head * n;
  const float* gate = z.row(u.row) + u.head * n;
  float* out = y.row(u.row) + u.head * n;
  float early[kEarly];
#pragma unroll
  for (int k = 0; k < kEarly; ++k) early[k] = u.lane + k * kWarp < n ? gate[u.lane + k * kWarp] : 0.0f;
  const float r = num::inverse_sqrt(warp_dot<kAligned>(x, x, n) / static_cast<float>(n) + eps);
#pragma unroll
  for (int k = 0; k < kEarly; ++k) {
    const std::int64_t i = u.lane + k * kWarp;
    if (i < n) out[i] = (w[k] * (x[i] * r)) * num::silu(early[k]);
  }
  for (std::int64_t i = u.lane + kEarly * kWarp; i < n; i += kWarp) {
    out[i] = (weight[i] * (x[i] * r)) * num::silu(gate[i]);
  }
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
