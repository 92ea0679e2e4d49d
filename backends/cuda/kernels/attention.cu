#include "backends/cuda/kernels/common.cuh"

/// Keys and values in pages, and attention over them. Positions in blocks of 128: a thread block computes one
/// of them for all query heads of a key/value head, so that keys and values are read once a token; a second
/// kernel joins the blocks of a head in increasing order.
namespace tandem::cuda {
namespace {

constexpr int kBlock = 128;  ///< positions that are summed before blocks join
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr std::int64_t kScratchBytes = std::int64_t{64} << 20;
static_assert(kBlock == num::kChains<float>, "one position a chain");

/// A sequence's pages on the device.
struct KvRows {
  std::int64_t first_row, rows, position;
  std::int64_t first_page;  ///< in the list of all pages
};

struct Pages {
  const KvRows* segments;
  float* const* pages;
  std::int64_t kv_heads, page_tokens, head_dim;
  bool aligned;  ///< every key and value can be read 16 bytes at a time

  __device__ const KvRows& segment_of(std::int64_t row) const {
    const KvRows* s = segments;
    while (row >= s->first_row + s->rows) ++s;
    return *s;
  }
  /// Key of a position and head; the value of head h is the key of head kv_heads + h.
  __device__ float* key(const KvRows& s, std::int64_t head, std::int64_t position) const {
    float* page = pages[s.first_page + position / page_tokens];
    return page + (head * page_tokens + position % page_tokens) * head_dim;
  }
};

/// Copies the segments and their lists of pages to the device, in one piece: segments, then pages.
cudaError_t push_pages(std::span<const KvSegment> segments, std::int64_t kv_heads, std::int64_t page_tokens,
                       std::int64_t head_dim, const Launch& where, Pages* pages) {
  std::size_t count = 0;
  for (const KvSegment& s : segments) {
    count += static_cast<std::size_t>(ceil_div(s.position + s.range.rows, page_tokens));
  }
  const std::size_t head = segments.size() * sizeof(KvRows);
  std::vector<std::byte> host(head + count * sizeof(void*));
  auto* rows = reinterpret_cast<KvRows*>(host.data());
  auto* list = reinterpret_cast<void**>(host.data() + head);
  std::int64_t first_page = 0;
  bool aligned = head_dim % 4 == 0;
  for (const KvSegment& s : segments) {
    *rows++ = {s.range.first_row, s.range.rows, s.position, first_page};
    const std::int64_t used = ceil_div(s.position + s.range.rows, page_tokens);
    for (std::int64_t i = 0; i < used; ++i) {
      list[first_page + i] = s.pages.data()[i];
      aligned = aligned && reinterpret_cast<std::uintptr_t>(s.pages.data()[i]) % 16 == 0;
    }
    first_page += used;
  }
  const void* device = nullptr;
  const cudaError_t status = where.arguments->push(host.data(), host.size(), &device);
  const auto* bytes = static_cast<const std::byte*>(device);
  *pages = {reinterpret_cast<const KvRows*>(bytes),
            reinterpret_cast<float* const*>(bytes + head),
            kv_heads,
            page_tokens,
            head_dim,
            aligned};
  return status;
}

__global__ void __launch_bounds__(kThreads) kv_append_kernel(Pages pages, ConstRows k, ConstRows v) {
  wait_for_inputs();
  const std::int64_t row = blockIdx.x, width = pages.kv_heads * pages.head_dim;
  const KvRows& s = pages.segment_of(row);
  const std::int64_t position = s.position + row - s.first_row;
  for (std::int64_t i = threadIdx.x; i < width; i += kThreads) {
    const std::int64_t head = i / pages.head_dim, d = i % pages.head_dim;
    pages.key(s, head, position)[d] = k.row(row)[i];
    pages.key(s, pages.kv_heads + head, position)[d] = v.row(row)[i];
  }
}

cudaError_t kv_append(const KvAppend& op, const Launch& where) {
  Pages pages{};
  const cudaError_t status =
      push_pages(op.segments, op.k.shape[1], op.page_tokens, op.k.shape[2], where, &pages);
  if (status != cudaSuccess) return status;
  return launch(where, kv_append_kernel, op.k.rows(), kThreads, 0, pages, rows(op.k), rows(op.v));
}

/// What a block of positions comes to for one query head: maximum, sum, then head_dim values. In scratch
/// memory, [row][block][query head].
struct Partials {
  float* data;
  std::int64_t first_row, blocks, heads, head_dim;

  __device__ float* at(std::int64_t row, std::int64_t block, std::int64_t head) const {
    return data + (((row - first_row) * blocks + block) * heads + head) * (head_dim + 2);
  }
};

struct AttentionOperands {
  ConstRows q;
  Rows o;
  Pages pages;
  Partials partials;
  std::int64_t group;       ///< query heads of a key/value head
  std::int64_t sub_groups;  ///< thread blocks that share them
  float scale;
};

/// Positions whose scores a warp computes together, so that an element of q is read once for all of them.
constexpr int kTogether = 4;

template <bool kAligned>
__device__ __forceinline__ void load4(const float* from, std::int64_t left, float (&to)[4]) {
  if (kAligned && left >= 4) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  } else {
#pragma unroll
    for (int v = 0; v < 4; ++v) to[v] = v < left ? from[v] : 0.0f;
  }
}

/// Sums of kCount values over the lanes, each in the order of join_lanes: value l ends up in lane l. Lanes
/// exchange halves of what they have, so that a level costs half of the one before.
template <int kCount>
__device__ __forceinline__ float join_values(float (&values)[kCount]) {
  static_assert(kCount == kWarp);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
  for (int o = kWarp / 2; o > 0; o /= 2) {
    const bool upper = (lane & o) != 0;
#pragma unroll
    for (int i = 0; i < o; ++i) {
      const float kept = upper ? values[i + o] : values[i], given = upper ? values[i] : values[i + o];
      values[i] = kept + __shfl_xor_sync(kAllLanes, given, o);
    }
  }
  return values[0];
}

/// num::dot(key, q) of kTogether positions with each of a warp's query heads; of head g and position j in
/// lane kTogether * g + j.
template <int kGroup, bool kAligned>
__device__ __forceinline__ float score(const float* const (&keys)[kTogether], const float* q, std::int64_t n,
                                       int heads) {
  float chains[kGroup][kTogether][4] = {};
  for (std::int64_t i = 4 * static_cast<std::int64_t>(threadIdx.x % kWarp); i < n; i += 4 * kWarp) {
    float k[kTogether][4];
#pragma unroll
    for (int j = 0; j < kTogether; ++j) load4<kAligned>(keys[j] + i, n - i, k[j]);
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      if (g >= heads) break;
      float query[4];
      load4<kAligned>(q + g * n + i, n - i, query);
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          if (i + v < n) chains[g][j][v] = num::fma(k[j][v], query[v], chains[g][j][v]);
        }
      }
    }
  }
  float sums[kWarp] = {};
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      const float(&c)[4] = chains[g][j];
      sums[g * kTogether + j] = (c[0] + c[1]) + (c[2] + c[3]);
    }
  }
  return join_values(sums);
}

/// One head's scores in shared memory become exp(s - maximum); a warp. Returns maximum and sum.
__device__ __forceinline__ float2 exponentiate(float (&p)[kBlock], int count) {
  const int first = 4 * static_cast<int>(threadIdx.x % kWarp);
  float maximum = p[0];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    if (first + v < count) maximum = fmaxf(maximum, p[first + v]);
  }
#pragma unroll
  for (int o = kWarp / 2; o > 0; o /= 2) maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, o));
  float e[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    e[v] = first + v < count ? num::exp(p[first + v] - maximum) : 0.0f;
    p[first + v] = e[v];
  }
  return make_float2(maximum, join_lanes((e[0] + e[1]) + (e[2] + e[3])));
}

template <int kGroup, bool kAligned>
__global__ void __launch_bounds__(kThreads) attend_kernel(const __grid_constant__ AttentionOperands op) {
  extern __shared__ __align__(16) float q[];  // [heads][head_dim]
  __shared__ __align__(16) float p[kGroup][kBlock];
  __shared__ const float* keys[kBlock];
  wait_for_inputs();
  const Pages& pages = op.pages;
  std::int64_t unit = blockIdx.x;
  const std::int64_t block = unit % op.partials.blocks;
  unit /= op.partials.blocks;
  const std::int64_t sub_group = unit % op.sub_groups;
  unit /= op.sub_groups;
  const std::int64_t kv_head = unit % pages.kv_heads, row = op.partials.first_row + unit / pages.kv_heads;
  const KvRows& s = pages.segment_of(row);
  const std::int64_t begin = block * kBlock, all = s.position + row - s.first_row + 1, n = pages.head_dim;
  if (begin >= all) return;
  const int count = static_cast<int>(min(all - begin, std::int64_t{kBlock}));
  const int heads = static_cast<int>(min(op.group - sub_group * kGroup, std::int64_t{kGroup}));
  const std::int64_t first_head = kv_head * op.group + sub_group * kGroup;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;

  if (threadIdx.x < count) keys[threadIdx.x] = pages.key(s, kv_head, begin + threadIdx.x);
  for (std::int64_t i = threadIdx.x; i < heads * n; i += kThreads) q[i] = op.q.row(row)[first_head * n + i];
  __syncthreads();
  for (int j = warp * kTogether; j < count; j += kWarps * kTogether) {
    const float* together[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) together[i] = keys[min(j + i, count - 1)];
    const float sum = score<kGroup, kAligned>(together, q, n, heads);
    const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / kTogether, i = lane % kTogether;
    if (g < heads && j + i < count) p[g][j + i] = sum * op.scale;
  }
  __syncthreads();
  if (warp < heads) {
    const float2 result = exponentiate(p[warp], count);
    if (threadIdx.x % kWarp == 0) {
      float* partial = op.partials.at(row, block, first_head + warp);
      partial[0] = result.x, partial[1] = result.y;
    }
  }
  __syncthreads();
  const std::int64_t to_value = pages.kv_heads * pages.page_tokens * n;
  for (std::int64_t d = threadIdx.x; d < n; d += kThreads) {
    float values[kGroup] = {};
    int j = 0;
#pragma unroll 4
    for (; j + 4 <= count; j += 4) {
      const float v[4] = {keys[j][to_value + d], keys[j + 1][to_value + d], keys[j + 2][to_value + d],
                          keys[j + 3][to_value + d]};
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
        if (g >= heads) break;
        const float4 four = *reinterpret_cast<const float4*>(&p[g][j]);
        values[g] = num::fma(four.x, v[0], values[g]);
        values[g] = num::fma(four.y, v[1], values[g]);
        values[g] = num::fma(four.z, v[2], values[g]);
        values[g] = num::fma(four.w, v[3], values[g]);
      }
    }
    for (; j < count; ++j) {
      const float v = keys[j][to_value + d];
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
        if (g < heads) values[g] = num::fma(p[g][j], v, values[g]);
      }
    }
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      if (g < heads) op.partials.at(row, block, first_head + g)[2 + d] = values[g];
    }
  }
}

/// Joins the blocks of one head of one row.
__global__ void __launch_bounds__(kThreads) join_kernel(const __grid_constant__ AttentionOperands op) {
  wait_for_inputs();
  const std::int64_t heads = op.partials.heads, n = op.pages.head_dim;
  const std::int64_t head = blockIdx.x % heads, row = op.partials.first_row + blockIdx.x / heads;
  const KvRows& s = op.pages.segment_of(row);
  const std::int64_t blocks = (s.position + row - s.first_row) / kBlock + 1;
  for (std::int64_t d = threadIdx.x; d < n; d += kThreads) {
    const float* first = op.partials.at(row, 0, head);
    float maximum = first[0], sum = first[1], value = first[2 + d];
#pragma unroll 4
    for (std::int64_t b = 1; b < blocks; ++b) {
      const float* next = op.partials.at(row, b, head);
      const float joined = next[0] > maximum ? next[0] : maximum;
      const float c = num::exp(maximum - joined), e = num::exp(next[0] - joined);
      sum = num::fma(next[1], e, sum * c);
      value = num::fma(next[2 + d], e, value * c);
      maximum = joined;
    }
    op.o.row(row)[head * n + d] = value / sum;
  }
}

template <int kGroup>
cudaError_t launch_attend(AttentionOperands op, const Launch& where, std::int64_t row_count) {
  op.sub_groups = ceil_div(op.group, kGroup);
  const std::int64_t n = op.pages.head_dim;
  const std::size_t shared =
      static_cast<std::size_t>(std::min<std::int64_t>(op.group, kGroup) * n) * sizeof(float);
  const auto kernel = op.pages.aligned ? attend_kernel<kGroup, true> : attend_kernel<kGroup, false>;
  const cudaError_t status =
      launch(where, kernel, row_count * op.pages.kv_heads * op.sub_groups * op.partials.blocks, kThreads,
             shared, op);
  if (status != cudaSuccess) return status;
  return launch(where, join_kernel, row_count * op.partials.heads, kThreads, 0, op);
}

/// Query heads of one thread block: all that share keys and values, as far as that leaves enough blocks to
/// fill the device; with a short context it is better to read keys several times.
cudaError_t launch_group(const AttentionOperands& op, const Launch& where, std::int64_t row_count) {
  constexpr std::int64_t kEnoughBlocks = 256;
  const std::int64_t units = row_count * op.pages.kv_heads * op.partials.blocks;
  const auto enough = [&](std::int64_t group) { return units * ceil_div(op.group, group) >= kEnoughBlocks; };
  if (op.group > 6 && enough(8)) return launch_attend<8>(op, where, row_count);
  if (op.group > 4 && enough(6)) return launch_attend<6>(op, where, row_count);
  if (op.group > 2 && enough(4)) return launch_attend<4>(op, where, row_count);
  if (op.group > 1 && enough(2)) return launch_attend<2>(op, where, row_count);
  return launch_attend<1>(op, where, row_count);
}

/// Rows in groups whose partial results fit into the scratch memory.
cudaError_t attention(const Attention& op, const Launch& where) {
  const std::int64_t heads = op.q.shape[1], n = op.q.shape[2];
  AttentionOperands operands{rows(op.q),
                             rows(op.o),
                             {},
                             {nullptr, 0, 0, heads, n},
                             heads / op.kv_heads,
                             0,
                             static_cast<float>(op.scale)};
  cudaError_t status = push_pages(op.segments, op.kv_heads, op.page_tokens, n, where, &operands.pages);
  if (status != cudaSuccess) return status;
  std::int64_t longest = 0;
  for (const KvSegment& s : op.segments) longest = std::max(longest, s.position + s.range.rows);
  operands.partials.blocks = ceil_div(longest, kBlock);
  const std::int64_t row_bytes =
      operands.partials.blocks * heads * (n + 2) * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t together = std::max<std::int64_t>(1, kScratchBytes / row_bytes);
  void* scratch = nullptr;
  status = where.arguments->scratch(static_cast<std::size_t>(std::min(together, op.q.rows()) * row_bytes),
                                    &scratch);
  operands.partials.data = static_cast<float*>(scratch);
  for (std::int64_t row = 0; row < op.q.rows() && status == cudaSuccess; row += together) {
    operands.partials.first_row = row;
    status = launch_group(operands, where, std::min(together, op.q.rows() - row));
  }
  return status;
}

}  // namespace

template <>
std::vector<Variant<KvAppend>> variants() {
  return {{"pages", nullptr, kv_append}};
}
template <>
std::vector<Variant<Attention>> variants() {
  return {{"blocks", nullptr, attention}};
}

}  // namespace tandem::cuda
