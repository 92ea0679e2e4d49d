#include "core/ops.hpp"

#include <string>

#include "core/error.hpp"

namespace tandem {
namespace {

constexpr std::string_view kNames[kOpKinds] = {
    "embed",          "gather_rows", "rms_norm",    "linear",       "silu_mul",
    "gdn_gates",      "gdn_conv",    "gdn_qk_norm", "gdn_delta",    "gdn_gated_norm",
    "head_norm_rope", "kv_append",   "attention",   "sigmoid_gate",
};

/// Checks of one operator; every failure names it.
class Checker {
 public:
  Checker(OpKind kind, DType real, bool with_segments)
      : kind_(kind), real_(real), with_segments_(with_segments) {}

  void shape(const ConstTensor& t, const char* operand, const Shape& expected) const {
    if (t.shape != expected) bad("{} is {}, expected {}", operand, to_string(t.shape), to_string(expected));
    if (t.row_stride < t.row_elements() && t.rows() > 1) {
      bad("{} has rows {} elements apart that are {} long", operand, t.row_stride, t.row_elements());
    }
  }
  void rank(const ConstTensor& t, const char* operand, int expected) const {
    if (t.shape.rank != expected)
      bad("{} is {}, expected {} dimensions", operand, to_string(t.shape), expected);
  }
  void type(const ConstTensor& t, const char* operand, DType expected) const {
    if (t.dtype != expected) bad("{} is {}, expected {}", operand, name(t.dtype), name(expected));
  }
  void real(const ConstTensor& t, const char* operand, const Shape& expected) const {
    type(t, operand, real_);
    shape(t, operand, expected);
  }
  void real_type(const ConstTensor& t, const char* operand) const { type(t, operand, real_); }
  void vector(const ConstTensor& t, const char* operand, const Shape& expected) const {
    type(t, operand, DType::f32);
    packed(t, operand, expected);
  }
  void indices(const ConstTensor& t, const char* operand, std::int64_t n) const {
    type(t, operand, DType::i32);
    packed(t, operand, Shape{n});
  }
  void packed(const ConstTensor& t, const char* operand, const Shape& expected) const {
    shape(t, operand, expected);
    if (!t.contiguous()) bad("{} must be contiguous, its rows are {} elements apart", operand, t.row_stride);
  }
  void matrix(const ConstTensor& t, const char* operand, std::int64_t columns) const {
    if (t.dtype != DType::f32 && t.dtype != DType::bf16)
      bad("{} is {}, expected f32 or bf16", operand, name(t.dtype));
    packed_matrix(t, operand, columns);
  }
  void q4_matrix(const ConstTensor& t, const char* operand, std::int64_t columns) const {
    packed_matrix(t, operand, columns);
    if (columns % kQ4Block != 0)
      bad("{} is q4 with {} columns, expected a multiple of {}", operand, columns, kQ4Block);
  }
  void positive(double value, const char* what) const {
    if (!(value > 0)) bad("{} is {}, expected a positive number", what, value);
  }
  void divides(std::int64_t a, std::int64_t b, const char* what) const {
    if (a <= 0 || b % a != 0) bad("{}: {} does not divide {}", what, a, b);
  }
  void head_stride(std::int64_t stride, const ConstTensor& t, const char* operand) const {
    if (stride < t.shape[2])
      bad("{} has heads {} elements apart that are {} long", operand, stride, t.shape[2]);
    if (t.rows() > 1 && t.row_stride < stride * (t.shape[1] - 1) + t.shape[2]) {
      bad("{} has rows {} elements apart, too close for {} heads", operand, t.row_stride, t.shape[1]);
    }
  }

  /// Segments cover rows 0 .. n without a gap: a kernel finds a row's segment, and every row is written.
  template <class Segment>
  void ranges(std::span<const Segment> segments, std::int64_t n) const {
    if (!with_segments_) return;
    std::int64_t next = 0;
    for (const Segment& s : segments) {
      if (s.range.rows < 1 || s.range.first_row != next || s.range.rows > n - next) {
        bad("a segment covers rows {}..{}, expected at least one row from {} on, up to {}", s.range.first_row,
            s.range.first_row + s.range.rows, next, n);
      }
      next = s.range.first_row + s.range.rows;
    }
    if (next != n) bad("the segments end at row {}, expected {}", next, n);
  }
  template <class Segment>
  void states(std::span<const Segment> segments, const Shape& state, std::int64_t n) const {
    ranges(segments, n);
    for (const Segment& s : segments) {
      type(s.state_in, "state_in", real_);
      packed(s.state_in, "state_in", state);
      type(s.state_out, "state_out", real_);
      packed(s.state_out, "state_out", state);
      if (s.state_in.data != nullptr && s.state_in.data == s.state_out.data)
        bad("state_in and state_out are the same slot");
    }
  }
  void pages(std::span<const KvSegment> segments, std::int64_t page_tokens, std::int64_t n) const {
    positive(static_cast<double>(page_tokens), "page_tokens");
    ranges(segments, n);
    for (const KvSegment& s : segments) {
      const std::int64_t needed = (s.position + s.range.rows + page_tokens - 1) / page_tokens;
      if (s.position < 0 || static_cast<std::int64_t>(s.pages.size()) < needed) {
        bad("{} pages for positions {}..{}, expected {}", s.pages.size(), s.position,
            s.position + s.range.rows, needed);
      }
    }
  }

  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::mismatch, "{}: {}", name(kind_), fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void packed_matrix(const ConstTensor& t, const char* operand, std::int64_t columns) const {
    rank(t, operand, 2);
    packed(t, operand, Shape{t.shape[0], columns});
  }

  OpKind kind_;
  DType real_;
  bool with_segments_;
};

void check(const Embed& op, const Checker& c) {
  c.rank(op.y, "y", 2);
  c.indices(op.ids, "ids", op.y.shape[0]);
  c.matrix(op.table, "table", op.y.shape[1]);
  c.real(op.y, "y", op.y.shape);
}

void check(const GatherRows& op, const Checker& c) {
  c.rank(op.x, "x", 2);
  c.rank(op.y, "y", 2);
  c.real(op.x, "x", op.x.shape);
  c.real(op.y, "y", Shape{op.y.shape[0], op.x.shape[1]});
  c.indices(op.rows, "rows", op.y.shape[0]);
}

void check(const RmsNorm& op, const Checker& c) {
  c.rank(op.x, "x", 2);
  c.real(op.x, "x", op.x.shape);
  c.real(op.y, "y", op.x.shape);
  c.vector(op.weight, "weight", Shape{op.x.shape[1]});
  c.positive(op.eps, "eps");
}

void check(const Linear& op, const Checker& c) {
  c.rank(op.x, "x", 2);
  c.real(op.x, "x", op.x.shape);
  if (op.weight.dtype == DType::q4) {
    c.q4_matrix(op.weight, "weight", op.x.shape[1]);
  } else {
    c.matrix(op.weight, "weight", op.x.shape[1]);
    if (op.activations != Activations::real)
      c.bad("activations in 8 bits with a weight in {}, expected one in q4", name(op.weight.dtype));
  }
  const Shape out{op.x.shape[0], op.weight.shape[0]};
  c.real(op.y, "y", out);
  if (op.residual) c.real(op.residual, "residual", out);
}

void check(const SiluMul& op, const Checker& c) {
  c.rank(op.gate, "gate", 2);
  c.real(op.gate, "gate", op.gate.shape);
  c.real(op.up, "up", op.gate.shape);
  c.real(op.y, "y", op.gate.shape);
}

void check(const GdnGates& op, const Checker& c) {
  c.rank(op.a, "a", 2);
  const Shape heads{op.a.shape[1]};
  c.real(op.a, "a", op.a.shape);
  c.real(op.b, "b", op.a.shape);
  c.real(op.beta, "beta", op.a.shape);
  c.real(op.g, "g", op.a.shape);
  c.vector(op.a_log, "a_log", heads);
  c.vector(op.dt_bias, "dt_bias", heads);
}

void check(const GdnConv& op, const Checker& c) {
  c.rank(op.x, "x", 2);
  c.rank(op.weight, "weight", 2);
  const std::int64_t channels = op.x.shape[1];
  c.real(op.x, "x", op.x.shape);
  c.real(op.y, "y", op.x.shape);
  c.vector(op.weight, "weight", Shape{channels, op.weight.shape[1]});
  if (op.weight.shape[1] < 2 || op.weight.shape[1] > kMaxConvTaps) {
    c.bad("a convolution of {} taps, expected 2 to {}", op.weight.shape[1], kMaxConvTaps);
  }
  c.states(op.segments, Shape{op.weight.shape[1] - 1, channels}, op.x.shape[0]);
}

void check(const GdnQkNorm& op, const Checker& c) {
  c.rank(op.q_in, "q_in", 3);
  c.real(op.q_in, "q_in", op.q_in.shape);
  c.real(op.k_in, "k_in", op.q_in.shape);
  c.real(op.q, "q", op.q_in.shape);
  c.real(op.k, "k", op.q_in.shape);
  c.positive(op.eps, "eps");
  c.positive(op.scale, "scale");
}

void check(const GdnDelta& op, const Checker& c) {
  c.rank(op.q, "q", 3);
  c.rank(op.v, "v", 3);
  const std::int64_t n = op.q.shape[0], value_heads = op.v.shape[1];
  c.real(op.q, "q", op.q.shape);
  c.real(op.k, "k", op.q.shape);
  c.real(op.v, "v", Shape{n, value_heads, op.v.shape[2]});
  c.real(op.o, "o", op.v.shape);
  c.real(op.g, "g", Shape{n, value_heads});
  c.real(op.beta, "beta", Shape{n, value_heads});
  c.divides(op.q.shape[1], value_heads, "key heads in value heads");
  if (op.q.shape[2] > kMaxKeyDim) c.bad("key heads of {}, expected at most {}", op.q.shape[2], kMaxKeyDim);
  c.states(op.segments, Shape{value_heads, op.q.shape[2], op.v.shape[2]}, n);
}

void check(const GdnGatedNorm& op, const Checker& c) {
  c.rank(op.o, "o", 3);
  c.real(op.o, "o", op.o.shape);
  c.real(op.z, "z", op.o.shape);
  c.real(op.y, "y", op.o.shape);
  c.vector(op.weight, "weight", Shape{op.o.shape[2]});
  c.positive(op.eps, "eps");
}

void check(const HeadNormRope& op, const Checker& c) {
  c.rank(op.x, "x", 3);
  c.rank(op.cos, "cos", 2);
  const std::int64_t head_dim = op.x.shape[2];
  c.real_type(op.x, "x");
  c.head_stride(op.head_stride, op.x, "x");
  c.real(op.y, "y", op.x.shape);
  c.vector(op.weight, "weight", Shape{head_dim});
  c.real(op.cos, "cos", op.cos.shape);
  c.real(op.sin, "sin", op.cos.shape);
  if (op.cos.shape[1] * 2 > head_dim)
    c.bad("rotates {} elements of heads of {}", op.cos.shape[1] * 2, head_dim);
  c.indices(op.positions, "positions", op.x.shape[0]);
  c.positive(op.eps, "eps");
}

void check(const KvAppend& op, const Checker& c) {
  c.rank(op.k, "k", 3);
  c.real(op.k, "k", op.k.shape);
  c.real(op.v, "v", op.k.shape);
  c.pages(op.segments, op.page_tokens, op.k.shape[0]);
}

void check(const Attention& op, const Checker& c) {
  c.rank(op.q, "q", 3);
  c.real(op.q, "q", op.q.shape);
  c.real(op.o, "o", op.q.shape);
  c.divides(op.kv_heads, op.q.shape[1], "kv heads in query heads");
  c.positive(op.scale, "scale");
  c.pages(op.segments, op.page_tokens, op.q.shape[0]);
}

void check(const SigmoidGate& op, const Checker& c) {
  c.rank(op.x, "x", 3);
  c.real(op.x, "x", op.x.shape);
  c.real(op.y, "y", op.x.shape);
  c.real_type(op.gate, "gate");
  if (op.gate.shape != op.x.shape)
    c.bad("gate is {}, expected {}", to_string(op.gate.shape), to_string(op.x.shape));
  c.head_stride(op.head_stride, op.gate, "gate");
}

}  // namespace

std::string_view name(OpKind kind) { return kNames[static_cast<int>(kind)]; }

void validate(const Op& op, DType real) {
  const Checker checker(kind_of(op), real, true);
  std::visit([&](const auto& args) { check(args, checker); }, op);
}

void validate_shapes(const Op& op, DType real) {
  const Checker checker(kind_of(op), real, false);
  std::visit([&](const auto& args) { check(args, checker); }, op);
}

}  // namespace tandem
