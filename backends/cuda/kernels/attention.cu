#include <algorithm>
#include <span>
#include <vector>

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

/// A sequence's rows and its part of the list of pages.
struct KvRows {
  std::int64_t first_row, rows, position, first_page;
};

/// Lists up to this size go with the launch: a few sequences, 8192 positions. Longer ones take a copy to the
/// device in front of it.
constexpr int kInlineRows = 8;
constexpr int kInlinePages = 256;

/// The pages of a step's sequences, as kernels get them.
struct Pages {
  std::int64_t kv_heads, page_tokens, head_dim;
  const KvRows* far_rows = nullptr;  ///< null: the lists are inline
  float* const* far_pages = nullptr;
  KvRows inline_rows[kInlineRows] = {};
  float* inline_pages[kInlinePages] = {};

  __device__ const KvRows& segment_of(std::int64_t row) const {
    const KvRows* s = far_rows != nullptr ? far_rows : inline_rows;
    while (row >= s->first_row + s->rows) ++s;
    return *s;
  }
  /// Key of a position and head; the value of head h is the key of head kv_heads + h.
  __device__ float* key(const KvRows& s, std::int64_t head, std::int64_t position) const {
    const std::int64_t index = s.first_page + position / page_tokens;
    float* page = far_rows != nullptr ? far_pages[index] : inline_pages[index];
    return page + (head * page_tokens + position % page_tokens) * head_dim;
  }
};

/// All pages one after another, and where each sequence's begin.
struct PageLists {
  std::vector<KvRows> rows;
  std::vector<float*> pages;
  bool aligned = true;  ///< pages can be read 16 bytes at a time

  PageLists(std::span<const KvSegment> segments, std::int64_t page_tokens) {
    for (const KvSegment& s : segments) {
      rows.push_back({s.range.first_row, s.range.rows, s.position, std::ssize(pages)});
      for (void* page :
           s.pages.first(static_cast<std::size_t>(ceil_div(s.position + s.range.rows, page_tokens)))) {
        pages.push_back(static_cast<float*>(page));
        aligned = aligned && reinterpret_cast<std::uintptr_t>(page) % 16 == 0;
      }
    }
  }
};

/// Puts the lists into the parameters, or on the device.
cudaError_t pass(const PageLists& lists, const Launch& where, Pages* pages) {
  if (lists.rows.size() <= kInlineRows && lists.pages.size() <= kInlinePages) {
    std::copy(lists.rows.begin(), lists.rows.end(), pages->inline_rows);
    std::copy(lists.pages.begin(), lists.pages.end(), pages->inline_pages);
    return cudaSuccess;
  }
  // In one piece: a second push may take the place of the first.
  const std::span rows = std::as_bytes(std::span(lists.rows)), list = std::as_bytes(std::span(lists.pages));
  std::vector<std::byte> both(rows.begin(), rows.end());
  both.insert(both.end(), list.begin(), list.end());
  const void* device = nullptr;
  const cudaError_t status = where.arguments->push(both.data(), both.size(), &device);
  pages->far_rows = static_cast<const KvRows*>(device);
  pages->far_pages = reinterpret_cast<float* const*>(static_cast<const std::byte*>(device) + rows.size());
  return status;
}

__global__ void __launch_bounds__(kThreads)
    kv_append_kernel(const __grid_constant__ Pages pages, ConstRows k, ConstRows v) {
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
  Pages pages{op.k.shape[1], op.page_tokens, op.k.shape[2]};
  const cudaError_t status = pass(PageLists(op.segments, op.page_tokens), where, &pages);
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
  bool aligned;  ///< every key and value can be read 16 bytes at a time
};

/// Positions whose scores a warp computes together, so that an element of q is read once for all of them. As
/// many as registers allow when several blocks are to share a multiprocessor.
template <int kGroup>
inline constexpr int kTogether = kGroup <= 4 ? 4 : 2;

/// Results of a warp: one for each query head and position.
constexpr int kScores = 16;

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

/// Sums of kScores values over the lanes, each in the order of join_lanes: value i ends up in lanes i and i
/// + 16. From the second level on lanes exchange halves of what they have, so that a level costs half of the
/// one before.
__device__ __forceinline__ float join_values(float (&values)[kScores]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
  for (int i = 0; i < kScores; ++i) values[i] = values[i] + __shfl_xor_sync(kAllLanes, values[i], kScores);
#pragma unroll
  for (int o = kScores / 2; o > 0; o /= 2) {
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
__device__ __forceinline__ float score(const float* const (&keys)[kTogether<kGroup>], const float* q,
                                       std::int64_t n, int heads) {
  constexpr int kCount = kTogether<kGroup>;
  float chains[kGroup][kCount][4] = {};
  for (std::int64_t i = 4 * static_cast<std::int64_t>(threadIdx.x % kWarp); i < n; i += 4 * kWarp) {
    float k[kCount][4];
#pragma unroll
    for (int j = 0; j < kCount; ++j) load4<kAligned>(keys[j] + i, n - i, k[j]);
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      if (g >= heads) break;
      float query[4];
      load4<kAligned>(q + g * n + i, n - i, query);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          if (i + v < n) chains[g][j][v] = num::fma(k[j][v], query[v], chains[g][j][v]);
        }
      }
    }
  }
  float sums[kScores] = {};
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const float(&c)[4] = chains[g][j];
      sums[g * kCount + j] = (c[0] + c[1]) + (c[2] + c[3]);
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

/// Asks for all keys and values of a block, as far as the second-level cache, so that no later loop waits for
/// memory.
__device__ __forceinline__ void fetch(const float* const* keys, int count, std::int64_t n,
                                      std::int64_t to_value) {
  constexpr std::int64_t kLine = 32;
  const std::int64_t lines = ceil_div(n, kLine);
  for (std::int64_t i = threadIdx.x; i < count * lines; i += kThreads) {
    const float* key = keys[i / lines] + (i % lines) * kLine;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(key));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(key + to_value));
  }
}

template <int kGroup, bool kAligned>
__global__ void __launch_bounds__(kThreads, 2) attend_kernel(const __grid_constant__ AttentionOperands op) {
  extern __shared__ __align__(16) float q[];  // [heads][head_dim]
  __shared__ __align__(16) float p[kGroup][kBlock];
  __shared__ const float* keys[kBlock];
  const Pages& pages = op.pages;
  std::int64_t unit = blockIdx.x;
  const std::int64_t block = unit % op.partials.blocks;
  unit /= op.partials.blocks;
  const std::int64_t sub_group = unit % op.sub_groups;
  unit /= op.sub_groups;
  const std::int64_t kv_head = unit % pages.kv_heads, row = op.partials.first_row + unit / pages.kv_heads;
  const KvRows& s = pages.segment_of(row);
  const std::int64_t begin = block * kBlock, all = s.position + row - s.first_row + 1, n = pages.head_dim;
  if (begin >= all) return wait_for_inputs();
  const int count = static_cast<int>(min(all - begin, std::int64_t{kBlock}));
  const int heads = static_cast<int>(min(op.group - sub_group * kGroup, std::int64_t{kGroup}));
  const std::int64_t first_head = kv_head * op.group + sub_group * kGroup;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;

  const std::int64_t to_value = pages.kv_heads * pages.page_tokens * n;
  if (threadIdx.x < count) keys[threadIdx.x] = pages.key(s, kv_head, begin + threadIdx.x);
  __syncthreads();
  fetch(keys, count, n, to_value);
  wait_for_inputs();
  for (std::int64_t i = threadIdx.x; i < heads * n; i += kThreads) q[i] = op.q.row(row)[first_head * n + i];
  __syncthreads();
  constexpr int kCount = kTogether<kGroup>;
  for (int j = warp * kCount; j < count; j += kWarps * kCount) {
    const float* together[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) together[i] = keys[min(j + i, count - 1)];
    const float sum = score<kGroup, kAligned>(together, q, n, heads);
    const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / kCount, i = lane % kCount;
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

/// max over the lanes up to and with this one.
__device__ __forceinline__ float prefix_maximum(float value) {
#pragma unroll
  for (int o = 1; o < kWarp; o *= 2) {
    const float other = __shfl_up_sync(kAllLanes, value, o);
    if (static_cast<int>(threadIdx.x % kWarp) >= o) value = fmaxf(value, other);
  }
  return value;
}

/// By how much sums are scaled when a block joins: those so far, and its own; and its sum.
struct Rescale {
  float all, next, sum;
};

/// Of the blocks [first, first + kThreads), one a thread. A maximum is exact in any order, so that all of
/// them can be computed at once. `carried` is the maximum of the blocks before; returns that of all.
__device__ __forceinline__ float rescale_factors(const Partials& partials, std::int64_t row,
                                                 std::int64_t head, std::int64_t first, std::int64_t blocks,
                                                 float carried, Rescale* factors) {
  __shared__ float warp_maximum[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t block = first + threadIdx.x;
  const bool there = block < blocks;
  const float* partial = partials.at(row, there ? block : first, head);
  const float own = partial[0];
  const float inclusive = prefix_maximum(own);
  if (lane == kWarp - 1) warp_maximum[warp] = inclusive;
  __syncthreads();
  float before = carried;
  for (int w = 0; w < warp; ++w) before = fmaxf(before, warp_maximum[w]);
  const float lower = __shfl_up_sync(kAllLanes, inclusive, 1);
  const float previous = lane == 0 ? before : fmaxf(before, lower), joined = fmaxf(previous, own);
  if (there) factors[threadIdx.x] = {num::exp(previous - joined), num::exp(own - joined), partial[1]};
  float all = carried;
  for (float w : warp_maximum) all = fmaxf(all, w);
  __syncthreads();
  return all;
}

/// Joins the blocks of one head of one row.
__global__ void __launch_bounds__(kThreads) join_kernel(const __grid_constant__ AttentionOperands op) {
  __shared__ Rescale factors[kThreads];
  wait_for_inputs();
  const std::int64_t heads = op.partials.heads, n = op.pages.head_dim;
  const std::int64_t head = blockIdx.x % heads, row = op.partials.first_row + blockIdx.x / heads;
  const KvRows& s = op.pages.segment_of(row);
  const std::int64_t blocks = (s.position + row - s.first_row) / kBlock + 1;
  const float* first = op.partials.at(row, 0, head);
  for (std::int64_t columns = 0; columns < n; columns += kThreads) {  // all threads go along
    const std::int64_t d = min(columns + threadIdx.x, n - 1);
    float maximum = first[0], sum = first[1], value = first[2 + d];
    for (std::int64_t b = 1; b < blocks; b += kThreads) {
      maximum = rescale_factors(op.partials, row, head, b, blocks, maximum, factors);
      const int count = static_cast<int>(min(blocks - b, std::int64_t{kThreads}));
      const float* next = op.partials.at(row, b, head) + 2 + d;
      const std::int64_t stride = heads * (n + 2);
#pragma unroll 8
      for (int i = 0; i < count; ++i) {
        const Rescale f = factors[i];
        sum = num::fma(f.sum, f.next, sum * f.all);
        value = num::fma(next[i * stride], f.next, value * f.all);
      }
      __syncthreads();
    }
    if (columns + threadIdx.x < n) op.o.row(row)[head * n + d] = value / sum;
  }
}

template <int kGroup>
cudaError_t launch_attend(AttentionOperands op, const Launch& where, std::int64_t row_count) {
  op.sub_groups = ceil_div(op.group, kGroup);
  const std::int64_t n = op.pages.head_dim;
  const std::size_t shared =
      static_cast<std::size_t>(std::min<std::int64_t>(op.group, kGroup) * n) * sizeof(float);
  const auto kernel = op.aligned ? attend_kernel<kGroup, true> : attend_kernel<kGroup, false>;
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
  const PageLists lists(op.segments, op.page_tokens);
  AttentionOperands operands{
      rows(op.q),          rows(op.o), {op.kv_heads, op.page_tokens, n}, {nullptr, 0, 0, heads, n},
      heads / op.kv_heads, 0,          static_cast<float>(op.scale),     lists.aligned && n % 4 == 0};
  cudaError_t status = pass(lists, where, &operands.pages);
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
