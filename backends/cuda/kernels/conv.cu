#include "backends/cuda/kernels/segments.cuh"

/// The short convolution of a Gated DeltaNet layer: a thread for a channel of a token.
namespace tandem::cuda {
namespace {

constexpr int kThreads = 256;

/// The inputs of one channel of a sequence by position in the step; negative positions are in its memory.
struct Inputs {
  const float* x;       ///< the segment's first row, at the channel
  const float* memory;  ///< its oldest row, at the channel
  std::int64_t stride, channels, taps;

  __device__ float at(std::int64_t t) const {
    return t >= 0 ? x[t * stride] : memory[(t + taps - 1) * channels];
  }
};

__device__ __forceinline__ const StateSegment& segment_of(const SegmentGroup& group, std::int64_t row) {
  int s = 0;
  while (row >= group.segments[s].first_row + group.segments[s].rows) ++s;
  return group.segments[s];
}

/// kTaps 0: any number, known at run time only.
template <int kTaps>
__global__ void __launch_bounds__(kThreads)
    conv_kernel(const __grid_constant__ SegmentGroup group, ConstRows x, const float* weight,
                std::int64_t channels, std::int64_t any_taps, std::int64_t blocks_per_row, Rows y) {
  const std::int64_t taps = kTaps > 0 ? kTaps : any_taps;
  const std::int64_t c = (blockIdx.x % blocks_per_row) * kThreads + threadIdx.x;
  const std::int64_t row = group.segments[0].first_row + blockIdx.x / blocks_per_row;
  const StateSegment& s = segment_of(group, row);
  float w[kTaps > 0 ? kTaps : kMaxConvTaps];
#pragma unroll
  for (int j = 0; j < (kTaps > 0 ? kTaps : kMaxConvTaps); ++j) {
    w[j] = j < taps && c < channels ? weight[c * taps + j] : 0.0f;
  }
  wait_for_inputs();
  if (c >= channels) return;
  const std::int64_t t = row - s.first_row;
  const Inputs inputs{x.row(s.first_row) + c, s.in + c, x.stride, channels, taps};
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < (kTaps > 0 ? kTaps : kMaxConvTaps); ++j) {
    if (j < taps) sum = num::fma(w[j], inputs.at(t - (taps - 1) + j), sum);
  }
  y.row(row)[c] = num::silu(sum);
  if (t + 1 != s.rows) return;
#pragma unroll
  for (std::int64_t j = 0; j + 1 < taps; ++j) s.out[j * channels + c] = inputs.at(s.rows - (taps - 1) + j);
}

cudaError_t gdn_conv(const GdnConv& op, const Launch& where) {
  const std::int64_t channels = op.x.row_elements(), taps = op.weight.row_elements();
  const std::int64_t blocks_per_row = ceil_div(channels, kThreads);
  constexpr std::int64_t kModelTaps = 4;
  const cudaError_t status = for_each_group(op.segments, [&](const SegmentGroup& group) {
    const StateSegment& last = group.segments[static_cast<std::size_t>(group.count - 1)];
    const std::int64_t count = last.first_row + last.rows - group.segments[0].first_row;
    return launch(where, taps == kModelTaps ? conv_kernel<kModelTaps> : conv_kernel<0>,
                  count * blocks_per_row, kThreads, 0, group, rows(op.x), floats(op.weight), channels, taps,
                  blocks_per_row, rows(op.y));
  });
  where.state_written = true;
  return status;
}

}  // namespace

template <>
std::vector<Variant<GdnConv>> variants() {
  return {{"channels", nullptr, gdn_conv}};
}

}  // namespace tandem::cuda
