#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "core/tensor.hpp"

/// The operators of the model as plain arguments. Each comment gives shapes and the formula; the exact order
/// of every floating-point operation is in core/README.md ("One arithmetic") and, as code, in
/// backends/cpu/scalar/.
///
/// N is the number of tokens of a step, over all of its sequences: row i of an activation belongs to token i.
/// Operators that look at other tokens (convolution, delta rule, attention) take one segment per sequence;
/// segments cover all rows in increasing order, each at least one.
///
/// Type "real" is the backend's activation type: f32, or f64 in the reference backend; scalars given as
/// double are rounded to it once. Vectors of a layer (norms, A_log, dt_bias, conv1d) are always f32; matrices
/// are f32 or bf16, those of a projection also q4.
namespace tandem {

/// y[i] = table[ids[i]].
struct Embed {
  ConstTensor ids;    ///< i32 [N], each in [0, V)
  ConstTensor table;  ///< f32 | bf16 [V, H]
  Tensor y;           ///< real [N, H]
};

/// y[i] = x[rows[i]]: picks the rows whose logits are wanted.
struct GatherRows {
  ConstTensor x;     ///< real [N, H]
  ConstTensor rows;  ///< i32 [M], each in [0, N)
  Tensor y;          ///< real [M, H]
};

/// y = x / sqrt(mean(x^2) + eps) * (1 + weight), per row.
struct RmsNorm {
  ConstTensor x;       ///< real [N, H]
  ConstTensor weight;  ///< f32 [H], zero-centred
  double eps = 0;
  Tensor y;  ///< real [N, H]
};

/// How a projection takes its activations.
enum class Activations : std::uint8_t {
  real,  ///< as they are
  q8     ///< rounded to 8 bits per block of 32 first (core/q4.hpp); only with a q4 weight
};

/// y = x W^T (+ residual). No bias: the model has none.
struct Linear {
  ConstTensor x;         ///< real [N, K]; K a multiple of 32 with a q4 weight
  ConstTensor weight;    ///< f32 | bf16 | q4 [M, K]
  ConstTensor residual;  ///< real [N, M], or absent; may be the same memory as y
  Tensor y;              ///< real [N, M]
  Activations activations = Activations::real;
};

/// y = silu(gate) * up, elementwise.
struct SiluMul {
  ConstTensor gate;  ///< real [N, I]
  ConstTensor up;    ///< real [N, I]
  Tensor y;          ///< real [N, I]
};

/// beta = sigmoid(b); g = -exp(A_log) * softplus(a + dt_bias): the write strength and the log decay of each
/// value head.
struct GdnGates {
  ConstTensor a;        ///< real [N, Nv]
  ConstTensor b;        ///< real [N, Nv]
  ConstTensor a_log;    ///< f32 [Nv]
  ConstTensor dt_bias;  ///< f32 [Nv]
  Tensor beta;          ///< real [N, Nv]
  Tensor g;             ///< real [N, Nv]
};

/// Rows [first_row, first_row + rows) of a step: one sequence's next tokens, oldest first.
struct RowRange {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
};

/// The convolution's memory of one sequence: the last K-1 inputs, oldest first. state_in and state_out
/// differ.
struct ConvSegment {
  RowRange range;
  ConstTensor state_in;  ///< real [K-1, C]
  Tensor state_out;      ///< real [K-1, C]
};

/// Taps that a kernel may keep in registers for; the model has 4.
inline constexpr std::int64_t kMaxConvTaps = 16;

/// Causal depthwise convolution, then silu: y[t,c] = silu(sum_j weight[c,j] * x[t-(K-1)+j, c]).
struct GdnConv {
  ConstTensor x;       ///< real [N, C]
  ConstTensor weight;  ///< f32 [C, K], 2 <= K <= kMaxConvTaps; weight[c, K-1] multiplies the current token
  std::span<const ConvSegment> segments;
  Tensor y;  ///< real [N, C]
};

/// q and k of the convolution's output, normalised per key head: x / sqrt(sum(x^2) + eps), q also times
/// scale.
struct GdnQkNorm {
  ConstTensor q_in;  ///< real [N, Nk, Dk]
  ConstTensor k_in;  ///< real [N, Nk, Dk]
  double eps = 0;    ///< 1e-6 in the model, on the sum
  double scale = 0;  ///< 1 / sqrt(Dk)
  Tensor q;          ///< real [N, Nk, Dk]
  Tensor k;          ///< real [N, Nk, Dk]
};

/// The recurrent state of one sequence in one layer. state_in and state_out differ.
struct DeltaSegment {
  RowRange range;
  ConstTensor state_in;  ///< real [Nv, Dk, Dv]
  Tensor state_out;      ///< real [Nv, Dk, Dv]
};

/// Rows of S that a kernel may spread over the lanes of a warp; the model has 128.
inline constexpr std::int64_t kMaxKeyDim = 1024;

/// The gated delta rule, per value head h with key head h / (Nv / Nk), tokens in order:
/// S *= exp(g); d = (v - S^T k) * beta; S += k d^T; o = S^T q.
struct GdnDelta {
  ConstTensor q;     ///< real [N, Nk, Dk], Dk <= kMaxKeyDim
  ConstTensor k;     ///< real [N, Nk, Dk]
  ConstTensor v;     ///< real [N, Nv, Dv]
  ConstTensor g;     ///< real [N, Nv]
  ConstTensor beta;  ///< real [N, Nv]
  std::span<const DeltaSegment> segments;
  Tensor o;  ///< real [N, Nv, Dv]
};

/// y = (weight * (o / sqrt(mean(o^2) + eps))) * silu(z), per value head. The weight is plain, not 1 + weight.
struct GdnGatedNorm {
  ConstTensor o;       ///< real [N, Nv, Dv]
  ConstTensor z;       ///< real [N, Nv, Dv]
  ConstTensor weight;  ///< f32 [Dv]
  double eps = 0;
  Tensor y;  ///< real [N, Nv, Dv]
};

/// Per-head RmsNorm with 1 + weight, then rotation of the first R elements of each head: the pairs (i, i +
/// R/2) by the angle of (position, i). Used for queries and for keys.
struct HeadNormRope {
  ConstTensor
      x;  ///< real [N, heads, D] with heads head_stride elements apart (q_proj interleaves q and gate)
  std::int64_t head_stride = 0;
  ConstTensor weight;  ///< f32 [D]
  double eps = 0;
  ConstTensor cos;        ///< real [P, R/2], computed on the host in double, rounded once
  ConstTensor sin;        ///< real [P, R/2]
  ConstTensor positions;  ///< i32 [N], each in [0, P)
  Tensor y;               ///< real [N, heads, D]
};

/// The keys and values of one sequence in one layer, in pages. A page holds page_tokens positions as
/// real [2, Hkv, page_tokens, D]: all keys, then all values. Pages cover positions 0 .. position + rows.
struct KvSegment {
  RowRange range;
  std::int64_t position = 0;       ///< of the segment's first row
  std::span<void* const> pages{};  ///< in order of position; at least ceil((position + rows) / page_tokens)
};

/// Writes keys and values of the step's tokens into their pages.
struct KvAppend {
  ConstTensor k;  ///< real [N, Hkv, D], after norm and rotation
  ConstTensor v;  ///< real [N, Hkv, D]
  std::int64_t page_tokens = 0;
  std::span<const KvSegment> segments;
};

/// Causal attention of each query over positions 0 .. its own; query head h reads kv head h / (Hq / Hkv).
struct Attention {
  ConstTensor q;  ///< real [N, Hq, D]
  std::int64_t kv_heads = 0;
  double scale = 0;  ///< 1 / sqrt(D)
  std::int64_t page_tokens = 0;
  std::span<const KvSegment> segments;
  Tensor o;  ///< real [N, Hq, D]
};

/// y = x * sigmoid(gate): the output gate of full attention.
struct SigmoidGate {
  ConstTensor x;     ///< real [N, heads, D]
  ConstTensor gate;  ///< real [N, heads, D] with heads head_stride elements apart
  std::int64_t head_stride = 0;
  Tensor y;  ///< real [N, heads, D]
};

using Op = std::variant<Embed, GatherRows, RmsNorm, Linear, SiluMul, GdnGates, GdnConv, GdnQkNorm, GdnDelta,
                        GdnGatedNorm, HeadNormRope, KvAppend, Attention, SigmoidGate>;

/// Index of an operator in Op; kernel tables, counters and names are arrays over it.
enum class OpKind : std::uint8_t {
  embed,
  gather_rows,
  rms_norm,
  linear,
  silu_mul,
  gdn_gates,
  gdn_conv,
  gdn_qk_norm,
  gdn_delta,
  gdn_gated_norm,
  head_norm_rope,
  kv_append,
  attention,
  sigmoid_gate,
};
inline constexpr int kOpKinds = static_cast<int>(std::variant_size_v<Op>);
static_assert(static_cast<int>(OpKind::sigmoid_gate) + 1 == kOpKinds);

inline OpKind kind_of(const Op& op) { return static_cast<OpKind>(op.index()); }
std::string_view name(OpKind kind);

/// The one place where operator arguments are checked: element types, shapes, strides, segments. `real` is
/// the backend's activation type. Pointers are not looked at. Token ids, row numbers and positions lie in
/// device memory and are checked by whoever uploads them. Throws Error(mismatch) naming operator, operand,
/// what was expected and what was found.
void validate(const Op& op, DType real);

/// As validate, but for a symbolic operator, which has no segments yet.
void validate_shapes(const Op& op, DType real);

}  // namespace tandem
