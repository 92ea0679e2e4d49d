#include <bit>

#include "backends/cuda/kernels/segments.cuh"

/// The gated delta rule. A thread has one column and one slice of 32 rows of S in registers, from the first
/// token of a step to the last: S is read once and written once. The slices of a column are lanes of one
/// warp, so that they join by shuffles and no block waits for itself.
namespace tandem::cuda {
namespace {

constexpr int kSlice = 32;  ///< rows of S that one chain of the sums covers
constexpr int kMaxSlices = kWarp;
static_assert(kMaxKeyDim <= kMaxSlices * kSlice);
constexpr int kThreads = 64;

struct DeltaOperands {
  ConstRows q, k, v, g, beta;
  Rows o;
  std::int64_t key_dim, value_dim, heads, group;
};

/// num::join_neighbours of the slices of a column, kColumns lanes apart; the sum in every lane. A slice takes
/// its neighbour's sum when that exists.
template <int kSlices>
__device__ __forceinline__ float join_slices(float sum, int slice, int count) {
  constexpr int kColumns = kWarp / kSlices;
#pragma unroll
  for (int width = 1; width < kSlices; width *= 2) {
    const float other = __shfl_xor_sync(kAllLanes, sum, width * kColumns);
    const bool exists = ((slice / width) ^ 1) * width < count;
    sum = exists ? sum + other : sum;
  }
  return sum;
}

/// The part of a head's q or k that belongs to a slice; rows past the end are not touched.
template <bool kWhole>
__device__ __forceinline__ void load_slice(const float* from, std::int64_t rows, float (&to)[kSlice]) {
  if constexpr (kWhole) {
#pragma unroll
    for (int i = 0; i < kSlice; i += 4) {
      const float4 x = *reinterpret_cast<const float4*>(from + i);
      to[i] = x.x, to[i + 1] = x.y, to[i + 2] = x.z, to[i + 3] = x.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kSlice; ++i) to[i] = i < rows ? from[i] : 0.0f;
  }
}

/// early: the state may be read before the inputs are there (Launch::state_written); it comes from the
/// second-level cache, as the first may hold what it was before. kWhole: every slice has 32 rows, every warp
/// whole columns, and q and k can be read 16 bytes at a time.
template <int kSlices, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    delta_kernel(const __grid_constant__ SegmentGroup group, DeltaOperands op, int slices,
                 std::int64_t column_blocks, bool early) {
  constexpr int kColumns = kWarp / kSlices;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, slice = lane / kColumns;
  const std::int64_t unit = blockIdx.x / column_blocks;
  const std::int64_t h = unit % op.heads;
  const StateSegment& s = group.segments[unit / op.heads];
  const std::int64_t column =
      ((blockIdx.x % column_blocks) * (kThreads / kWarp) + threadIdx.x / kWarp) * kColumns + lane % kColumns;
  const std::int64_t first = static_cast<std::int64_t>(slice) * kSlice;
  // Lanes without a column or a slice go along, as shuffles need them, and touch no memory.
  const bool active = kWhole || (column < op.value_dim && first < op.key_dim);
  const std::int64_t rows = kWhole ? kSlice : active ? min(op.key_dim - first, std::int64_t{kSlice}) : 0;
  const std::int64_t at = (h * op.key_dim + first) * op.value_dim + column;
  if (!early) wait_for_inputs();

  float state[kSlice], key[kSlice], query[kSlice];
#pragma unroll
  for (int i = 0; i < kSlice; ++i)
    state[i] = kWhole || i < rows ? __ldcg(s.in + at + i * op.value_dim) : 0.0f;

  if (early) wait_for_inputs();
  for (std::int64_t t = s.first_row; t < s.first_row + s.rows; ++t) {
    const std::int64_t head_at = (h / op.group) * op.key_dim + first;
    load_slice<kWhole>(op.k.row(t) + head_at, rows, key);
    load_slice<kWhole>(op.q.row(t) + head_at, rows, query);
    const float alpha = num::exp(op.g.row(t)[h]), beta = op.beta.row(t)[h];
    const float value = active ? op.v.row(t)[h * op.value_dim + column] : 0.0f;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kSlice; ++i) {
      if (!kWhole && i >= rows) break;
      state[i] = state[i] * alpha;
      sum = num::fma(state[i], key[i], sum);
    }
    const float delta = (value - join_slices<kSlices>(sum, slice, slices)) * beta;
    sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kSlice; ++i) {
      if (!kWhole && i >= rows) break;
      state[i] = num::fma(key[i], delta, state[i]);
      sum = num::fma(state[i], query[i], sum);
    }
    sum = join_slices<kSlices>(sum, slice, slices);
    if (active && slice == 0) op.o.row(t)[h * op.value_dim + column] = sum;
  }
#pragma unroll
  for (int i = 0; i < kSlice; ++i) {
    if (kWhole || i < rows) s.out[at + i * op.value_dim] = state[i];
  }
}

template <int kSlices>
cudaError_t launch_delta(const GdnDelta& op, const Launch& where, int slices) {
  constexpr std::int64_t kColumnsPerBlock = kThreads / kSlices;
  const DeltaOperands operands{
      rows(op.q), rows(op.k),    rows(op.v),    rows(op.g),    rows(op.beta),
      rows(op.o), op.q.shape[2], op.v.shape[2], op.v.shape[1], op.v.shape[1] / op.q.shape[1]};
  const std::int64_t column_blocks = ceil_div(operands.value_dim, kColumnsPerBlock);
  const bool whole = operands.key_dim == kSlices * kSlice && operands.value_dim % kColumnsPerBlock == 0 &&
                     aligned_rows(op.q) && aligned_rows(op.k);
  const bool early = !where.state_written;
  const cudaError_t status = for_each_group(op.segments, [&](const SegmentGroup& group) {
    return launch(where, whole ? delta_kernel<kSlices, true> : delta_kernel<kSlices, false>,
                  group.count * operands.heads * column_blocks, kThreads, 0, group, operands, slices,
                  column_blocks, early);
  });
  where.state_written = true;
  return status;
}

cudaError_t delta_in_lanes(const GdnDelta& op, const Launch& where) {
  const int slices = static_cast<int>(ceil_div(op.q.shape[2], kSlice));
  switch (std::bit_ceil(static_cast<unsigned>(slices))) {
    case 1:
      return launch_delta<1>(op, where, slices);
    case 2:
      return launch_delta<2>(op, where, slices);
    case 4:
      return launch_delta<4>(op, where, slices);
    case 8:
      return launch_delta<8>(op, where, slices);
    case 16:
      return launch_delta<16>(op, where, slices);
    default:
      return launch_delta<kMaxSlices>(op, where, slices);
  }
}

}  // namespace

template <>
std::vector<Variant<GdnDelta>> variants() {
  return {{"lanes", nullptr, delta_in_lanes}};
}

}  // namespace tandem::cuda
