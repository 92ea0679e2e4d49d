#include "backends/cuda/kernels/common.cuh"

/// Operators on elements and rows: nothing is summed.
namespace tandem::cuda {
namespace {

constexpr int kThreads = 256;

/// A launch over [rows, width]: each block has a part of one row.
struct RowGrid {
  std::int64_t blocks_per_row;

  explicit RowGrid(std::int64_t width) : blocks_per_row(ceil_div(width, kThreads)) {}

  __device__ std::int64_t row() const { return blockIdx.x / blocks_per_row; }
  __device__ std::int64_t column() const { return (blockIdx.x % blocks_per_row) * kThreads + threadIdx.x; }
};

template <class... Params, class... Args>
cudaError_t launch_rows(const Launch& where, void (*kernel)(RowGrid, Params...), std::int64_t row_count,
                        std::int64_t width, Args&&... args) {
  const RowGrid grid(width);
  return launch(where, kernel, row_count * grid.blocks_per_row, kThreads, 0, grid, args...);
}

template <class T>
__global__ void embed_kernel(RowGrid grid, const std::int32_t* ids, const T* table, std::int64_t stride,
                             std::int64_t width, Rows y) {
  wait_for_inputs();
  const std::int64_t t = grid.row(), i = grid.column();
  if (i < width) y.row(t)[i] = num::widen(table[ids[t] * stride + i]);
}

cudaError_t embed(const Embed& op, const Launch& where) {
  const std::int64_t width = op.y.row_elements();
  if (op.table.dtype == DType::bf16) {
    return launch_rows(where, embed_kernel<bf16>, op.y.rows(), width, indices(op.ids),
                       static_cast<const bf16*>(op.table.data), op.table.row_stride, width, rows(op.y));
  }
  return launch_rows(where, embed_kernel<float>, op.y.rows(), width, indices(op.ids), floats(op.table),
                     op.table.row_stride, width, rows(op.y));
}

__global__ void gather_kernel(RowGrid grid, ConstRows x, const std::int32_t* which, std::int64_t width,
                              Rows y) {
  wait_for_inputs();
  const std::int64_t m = grid.row(), i = grid.column();
  if (i < width) y.row(m)[i] = x.row(which[m])[i];
}

cudaError_t gather_rows(const GatherRows& op, const Launch& where) {
  const std::int64_t width = op.y.row_elements();
  return launch_rows(where, gather_kernel, op.y.rows(), width, rows(op.x), indices(op.rows), width,
                     rows(op.y));
}

__global__ void silu_mul_kernel(RowGrid grid, ConstRows gate, ConstRows up, std::int64_t width, Rows y) {
  wait_for_inputs();
  const std::int64_t t = grid.row(), i = grid.column();
  if (i < width) y.row(t)[i] = num::silu(gate.row(t)[i]) * up.row(t)[i];
}

cudaError_t silu_mul(const SiluMul& op, const Launch& where) {
  const std::int64_t width = op.y.row_elements();
  return launch_rows(where, silu_mul_kernel, op.y.rows(), width, rows(op.gate), rows(op.up), width,
                     rows(op.y));
}

__global__ void gates_kernel(RowGrid grid, ConstRows a, ConstRows b, const float* a_log, const float* dt_bias,
                             std::int64_t heads, Rows beta, Rows g) {
  wait_for_inputs();
  const std::int64_t t = grid.row(), h = grid.column();
  if (h >= heads) return;
  beta.row(t)[h] = num::sigmoid(b.row(t)[h]);
  g.row(t)[h] = -(num::exp(a_log[h]) * num::softplus(a.row(t)[h] + dt_bias[h]));
}

cudaError_t gdn_gates(const GdnGates& op, const Launch& where) {
  const std::int64_t heads = op.a.row_elements();
  return launch_rows(where, gates_kernel, op.a.rows(), heads, rows(op.a), rows(op.b), floats(op.a_log),
                     floats(op.dt_bias), heads, rows(op.beta), rows(op.g));
}

__global__ void sigmoid_gate_kernel(RowGrid grid, ConstRows x, ConstRows gate, std::int64_t head_stride,
                                    std::int64_t head_dim, std::int64_t width, Rows y) {
  wait_for_inputs();
  const std::int64_t t = grid.row(), i = grid.column();
  if (i >= width) return;
  const std::int64_t at = (i / head_dim) * head_stride + i % head_dim;
  y.row(t)[i] = x.row(t)[i] * num::sigmoid(gate.row(t)[at]);
}

cudaError_t sigmoid_gate(const SigmoidGate& op, const Launch& where) {
  const std::int64_t width = op.y.row_elements();
  return launch_rows(where, sigmoid_gate_kernel, op.y.rows(), width, rows(op.x), rows(op.gate),
                     op.head_stride, op.x.shape[2], width, rows(op.y));
}

template <class T>
__global__ void generate_kernel(CounterRandom random, float step, float offset, std::int64_t n, T* to) {
  wait_for_inputs();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    const float value = random_element(random, step, offset, static_cast<std::uint64_t>(i));
    if constexpr (sizeof(T) == sizeof(bf16)) {
      to[i] = round_to_bf16(value);
    } else {
      to[i] = value;
    }
  }
}

/// A thread a block of 32 elements.
__global__ void generate_q4_kernel(CounterRandom random, float usual_scale, std::int64_t blocks,
                                   uint4* levels, f16* scales) {
  wait_for_inputs();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t b = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; b < blocks;
       b += stride) {
    std::uint32_t words[4] = {};
    for (int i = 0; i < kQ4Block; ++i) {
      const std::int32_t level = random_q4_level(random, static_cast<std::uint64_t>(b * kQ4Block + i)) + 8;
      const int byte = i % 16;
      words[byte / 4] |= static_cast<std::uint32_t>(level) << (8 * (byte % 4) + (i < 16 ? 0 : 4));
    }
    levels[b] = make_uint4(words[0], words[1], words[2], words[3]);
    scales[b] = random_q4_scale(random, usual_scale, static_cast<std::uint64_t>(b));
  }
}

}  // namespace

template <>
std::vector<Variant<Embed>> variants() {
  return {{"rows", nullptr, embed}};
}
template <>
std::vector<Variant<GatherRows>> variants() {
  return {{"rows", nullptr, gather_rows}};
}
template <>
std::vector<Variant<SiluMul>> variants() {
  return {{"rows", nullptr, silu_mul}};
}
template <>
std::vector<Variant<GdnGates>> variants() {
  return {{"rows", nullptr, gdn_gates}};
}
template <>
std::vector<Variant<SigmoidGate>> variants() {
  return {{"rows", nullptr, sigmoid_gate}};
}

cudaError_t generate(const RandomTensor& tensor, void* to, const Launch& where) {
  constexpr std::int64_t kMostBlocks = 4096;
  const std::int64_t n = tensor.shape.elements();
  if (tensor.dtype == DType::q4) {
    const std::int64_t q4_blocks = n / kQ4Block;
    auto* levels = static_cast<std::uint8_t*>(to);
    return launch(where, generate_q4_kernel, std::min(kMostBlocks, ceil_div(q4_blocks, kThreads)), kThreads,
                  0, tensor.random, usual_q4_scale(tensor), q4_blocks, reinterpret_cast<uint4*>(levels),
                  reinterpret_cast<f16*>(levels + n / 2));
  }
  const std::int64_t blocks = std::min(kMostBlocks, ceil_div(n, kThreads));
  const float step = step_of(tensor);
  if (tensor.dtype == DType::bf16) {
    return launch(where, generate_kernel<bf16>, blocks, kThreads, 0, tensor.random, step, tensor.offset, n,
                  static_cast<bf16*>(to));
  }
  return launch(where, generate_kernel<float>, blocks, kThreads, 0, tensor.random, step, tensor.offset, n,
                static_cast<float*>(to));
}

}  // namespace tandem::cuda
