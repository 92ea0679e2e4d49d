#include "backends/cpu/kernels/dot.hpp"
#include "backends/cpu/kernels/set.hpp"

namespace tandem::cpu::TANDEM_ISA {
namespace {

/// One token's outputs of channels [begin, end). taps[j] is the row of inputs that weight j multiplies, the
/// oldest first.
template <int fixed_taps>
void convolve(const float* const* taps, int kernel, const float* weight, std::int64_t begin, std::int64_t end,
              float* y) {
  const int count = fixed_taps > 0 ? fixed_taps : kernel;
  for (std::int64_t c = begin; c < end; ++c) {
    float sum = 0.0f;
    for (int j = 0; j < count; ++j) sum = num::fma(weight[c * count + j], taps[j][c], sum);
    y[c] = num::silu(sum);
  }
}

/// The input of `age` tokens before row t: a row of this step, or of the memory from before it.
const float* input_row(const GdnConv& op, const ConvSegment& s, std::int64_t t, std::int64_t age) {
  const std::int64_t row = t - age, before = s.range.first_row - row;
  return before <= 0 ? op.x.row<float>(row) : s.state_in.row<float>(op.weight.row_elements() - 1 - before);
}

/// Rows of S that one chain of the delta rule's sums covers.
constexpr std::int64_t kSlice = 32;
/// Columns side by side; a head wider than that is done in blocks, the last columns one at a time.
constexpr int kWideBlock = 64;
constexpr int kNarrowBlock = 16;

struct Head {
  std::int64_t key_dim;
  std::int64_t value_dim;
  const float* q;
  const float* k;
  const float* v;
  float alpha;
  float beta;
  float* o;
};

/// Joins the slices' sums as num::join_neighbours does, for `width` columns at once.
template <int width>
TANDEM_FN void join_slices(float* sums, std::int64_t count) {
  for (std::int64_t step = 1; step < count; step *= 2) {
    for (std::int64_t i = 0; i + step < count; i += 2 * step) {
      for (int c = 0; c < width; ++c)
        sums[i * width + c] = sums[i * width + c] + sums[(i + step) * width + c];
    }
  }
}

/// One token, columns [column, column + width): S is read from `in`, written decayed to `out`, then updated
/// there while it is still in the nearest cache. `sums` has room for width floats a slice.
template <int width>
TANDEM_FN void delta_columns(const Head& h, std::int64_t column, const float* in, float* out, float* sums) {
  const std::int64_t count = (h.key_dim + kSlice - 1) / kSlice;
  for (std::int64_t slice = 0; slice < count; ++slice) {
    float sum[width] = {};
    const std::int64_t last = slice * kSlice + kSlice < h.key_dim ? slice * kSlice + kSlice : h.key_dim;
    for (std::int64_t i = slice * kSlice; i < last; ++i) {
      const float* s = in + i * h.value_dim + column;
      float* d = out + i * h.value_dim + column;
      for (int c = 0; c < width; ++c) {
        const float decayed = s[c] * h.alpha;
        d[c] = decayed;
        sum[c] = num::fma(decayed, h.k[i], sum[c]);
      }
    }
    for (int c = 0; c < width; ++c) sums[slice * width + c] = sum[c];
  }
  join_slices<width>(sums, count);
  float delta[width];
  for (int c = 0; c < width; ++c) delta[c] = (h.v[column + c] - sums[c]) * h.beta;
  for (std::int64_t slice = 0; slice < count; ++slice) {
    float sum[width] = {};
    const std::int64_t last = slice * kSlice + kSlice < h.key_dim ? slice * kSlice + kSlice : h.key_dim;
    for (std::int64_t i = slice * kSlice; i < last; ++i) {
      float* d = out + i * h.value_dim + column;
      for (int c = 0; c < width; ++c) {
        const float updated = num::fma(h.k[i], delta[c], d[c]);
        d[c] = updated;
        sum[c] = num::fma(updated, h.q[i], sum[c]);
      }
    }
    for (int c = 0; c < width; ++c) sums[slice * width + c] = sum[c];
  }
  join_slices<width>(sums, count);
  for (int c = 0; c < width; ++c) h.o[column + c] = sums[c];
}

Head head_of(const GdnDelta& op, std::int64_t t, std::int64_t h) {
  const std::int64_t key_dim = op.q.shape[2], value_dim = op.v.shape[2],
                     key = h / (op.v.shape[1] / op.q.shape[1]) * key_dim;
  return {key_dim,
          value_dim,
          op.q.row<float>(t) + key,
          op.k.row<float>(t) + key,
          op.v.row<float>(t) + h * value_dim,
          num::exp(op.g.row<float>(t)[h]),
          op.beta.row<float>(t)[h],
          op.o.row<float>(t) + h * value_dim};
}

/// All tokens of a segment through one block of columns of one head: the block of S stays in the nearest
/// cache.
template <int width>
void delta_block(const GdnDelta& op, const DeltaSegment& s, std::int64_t h, std::int64_t column) {
  const std::int64_t matrix = op.q.shape[2] * op.v.shape[2], slices = (op.q.shape[2] + kSlice - 1) / kSlice;
  const float* in = s.state_in.row<float>(0) + h * matrix;
  float* out = s.state_out.row<float>(0) + h * matrix;
  float* sums = thread_scratch(slices * width);
  for (std::int64_t t = s.range.first_row; t < s.range.first_row + s.range.rows; ++t) {
    delta_columns<width>(head_of(op, t, h), column, in, out, sums);
    in = out;
  }
}

}  // namespace

void gdn_gates(const GdnGates& op, std::int64_t begin, std::int64_t end) {
  const float* a_log = op.a_log.row<float>(0);
  const float* dt_bias = op.dt_bias.row<float>(0);
  for (std::int64_t t = begin; t < end; ++t) {
    const float* a = op.a.row<float>(t);
    const float* b = op.b.row<float>(t);
    float* beta = op.beta.row<float>(t);
    float* g = op.g.row<float>(t);
    for (std::int64_t h = 0; h < op.a.row_elements(); ++h) {
      beta[h] = num::sigmoid(b[h]);
      g[h] = -(num::exp(a_log[h]) * num::softplus(a[h] + dt_bias[h]));
    }
  }
}

void gdn_conv(const GdnConv& op, std::int64_t begin, std::int64_t end) {
  const int kernel = static_cast<int>(op.weight.row_elements());
  const float* weight = op.weight.row<float>(0);
  for (const ConvSegment& s : op.segments) {
    const std::int64_t after = s.range.first_row + s.range.rows;
    const float* taps[kMaxConvTaps];
    for (std::int64_t t = s.range.first_row; t < after; ++t) {
      for (int j = 0; j < kernel; ++j) taps[j] = input_row(op, s, t, kernel - 1 - j);
      if (kernel == 4) {
        convolve<4>(taps, kernel, weight, begin, end, op.y.row<float>(t));
      } else {
        convolve<0>(taps, kernel, weight, begin, end, op.y.row<float>(t));
      }
    }
    for (int j = 0; j + 1 < kernel; ++j) {
      const float* newest = input_row(op, s, after, kernel - 1 - j);
      std::memcpy(s.state_out.row<float>(j) + begin, newest + begin,
                  static_cast<std::size_t>(end - begin) * sizeof(float));
    }
  }
}

void gdn_qk_norm(const GdnQkNorm& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t heads = op.q.shape[1], n = op.q.shape[2];
  const auto eps = static_cast<float>(op.eps), scale = static_cast<float>(op.scale);
  for (std::int64_t t = begin; t < end; ++t) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const float* q_in = op.q_in.row<float>(t) + h * n;
      const float* k_in = op.k_in.row<float>(t) + h * n;
      float* q = op.q.row<float>(t) + h * n;
      float* k = op.k.row<float>(t) + h * n;
      const float rq = num::inverse_sqrt(dot(q_in, q_in, n) + eps),
                  rk = num::inverse_sqrt(dot(k_in, k_in, n) + eps);
      for (std::int64_t i = 0; i < n; ++i) q[i] = (q_in[i] * rq) * scale;
      for (std::int64_t i = 0; i < n; ++i) k[i] = k_in[i] * rk;
    }
  }
}

void gdn_delta(const GdnDelta& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t heads = op.v.shape[1], value_dim = op.v.shape[2];
  for (std::int64_t u = begin; u < end; ++u) {
    const DeltaSegment& s = op.segments.data()[u / heads];
    std::int64_t column = 0;
    for (; column + kWideBlock <= value_dim; column += kWideBlock)
      delta_block<kWideBlock>(op, s, u % heads, column);
    for (; column + kNarrowBlock <= value_dim; column += kNarrowBlock) {
      delta_block<kNarrowBlock>(op, s, u % heads, column);
    }
    for (; column < value_dim; ++column) delta_block<1>(op, s, u % heads, column);
  }
}

void gdn_gated_norm(const GdnGatedNorm& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t heads = op.o.shape[1], n = op.o.shape[2];
  const float* weight = op.weight.row<float>(0);
  for (std::int64_t u = begin; u < end; ++u) {
    const std::int64_t t = u / heads, at = (u % heads) * n;
    const float* o = op.o.row<float>(t) + at;
    const float* z = op.z.row<float>(t) + at;
    float* y = op.y.row<float>(t) + at;
    const float r = num::inverse_sqrt(dot(o, o, n) / static_cast<float>(n) + static_cast<float>(op.eps));
    for (std::int64_t i = 0; i < n; ++i) y[i] = (weight[i] * (o[i] * r)) * num::silu(z[i]);
  }
}

}  // namespace tandem::cpu::TANDEM_ISA
