#include "backends/cuda/kernels/segments.cuh"

/// The short convolution of a Gated DeltaNet layer: a thread for a channel of a token.
namespace tandem::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ const StateSegment& segment_of(const SegmentGroup& group, std::int64_t row) {
  int s = 0;
  while (row >= group.segments[s].first_row + group.segments[s].rows) ++s;
  return group.segments[s];
}

/// kTaps 0: any number, known at run time only. early: the memory may be read before x is there
/// (Launch::state_written); it comes from the second-level cache, as the first may hold what it was before.
template <int kTaps>
__global__ void __launch_bounds__(kThreads)
    conv_kernel(const __grid_constant__ SegmentGroup group, ConstRows x, const float* weight,
                std::int64_t channels, std::int64_t any_taps, std::int64_t blocks_per_row, bool early,
                Rows y) {
  constexpr int kMost = kTaps > 0 ? kTaps : kMaxConvTaps;
  const int taps = kTaps > 0 ? kTaps : static_cast<int>(any_taps);
  const std::int64_t c = (blockIdx.x % blocks_per_row) * kThreads + threadIdx.x;
  const std::int64_t row = group.segments[0].first_row + blockIdx.x / blocks_per_row;
  const StateSegment& s = segment_of(group, row);
  const std::int64_t t = row - s.first_row;
  if (!early) wait_for_inputs();

  // Input j of the window is row t - (taps - 1) + j of the segment; negative ones are in the memory, oldest
  // first.
  const auto from_memory = [&](int j) { return j + t < taps - 1; };
  float w[kMost], window[kMost] = {};
#pragma unroll
  for (int j = 0; j < kMost; ++j) {
    if (c >= channels || j >= taps) continue;
    w[j] = weight[c * taps + j];
    if (from_memory(j)) window[j] = __ldcg(s.in + (t + j) * channels + c);
  }
  if (early) wait_for_inputs();
  if (c >= channels) return;
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kMost; ++j) {
    if (j >= taps) continue;
    if (!from_memory(j)) window[j] = x.row(row - (taps - 1) + j)[c];
    sum = num::fma(w[j], window[j], sum);
  }
  y.row(row)[c] = num::silu(sum);
  if (t + 1 != s.rows) return;
#pragma unroll
  for (int j = 1; j < kMost; ++j) {
    if (j < taps) s.out[(j - 1) * channels + c] = window[j];
  }
}

cudaError_t gdn_conv(const GdnConv& op, const Launch& where) {
  const std::int64_t channels = op.x.row_elements(), taps = op.weight.row_elements();
  const std::int64_t blocks_per_row = ceil_div(channels, kThreads);
  constexpr std::int64_t kModelTaps = 4;
  const bool early = !where.state_written;
  const cudaError_t status = for_each_group(op.segments, [&](const SegmentGroup& group) {
    const StateSegment& last = group.segments[static_cast<std::size_t>(group.count - 1)];
    const std::int64_t count = last.first_row + last.rows - group.segments[0].first_row;
    return launch(where, taps == kModelTaps ? conv_kernel<kModelTaps> : conv_kernel<0>,
                  count * blocks_per_row, kThreads, 0, group, rows(op.x), floats(op.weight), channels, taps,
                  blocks_per_row, early, rows(op.y));
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
