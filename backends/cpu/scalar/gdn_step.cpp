#include "backends/cpu/scalar/gdn_step.hpp"

#include "core/q4.hpp"
#include "core/reduce.hpp"

namespace tandem::cpu {
namespace {

/// Rows of S that one chain of the delta rule's sums covers.
constexpr std::int64_t kSlice = 32;

std::int64_t slices(std::int64_t key_dim) { return (key_dim + kSlice - 1) / kSlice; }

void resize(const GdnSizes& s, GdnTrace& t) {
  const auto size = [](std::vector<float>& v, std::int64_t n) { v.resize(static_cast<std::size_t>(n)); };
  size(t.xc, s.channels());
  size(t.z, s.values());
  size(t.b, s.value_heads);
  size(t.a, s.value_heads);
  size(t.beta, s.value_heads);
  size(t.g, s.value_heads);
  size(t.xcv, s.channels());
  size(t.q, s.keys());
  size(t.k, s.keys());
  size(t.on, s.values());
  size(t.onn, s.values());
}

void step_projections(const GdnSizes& s, const GdnWeights& w, const float* x, GdnTrace& t) {
  project(w.in_proj_qkv, w.activations, x, 0, s.channels(), t.xc.data());
  project(w.in_proj_z, w.activations, x, 0, s.values(), t.z.data());
  project(w.in_proj_b, Activations::real, x, 0, s.value_heads, t.b.data());
  project(w.in_proj_a, Activations::real, x, 0, s.value_heads, t.a.data());
}

void step_convolution(const GdnSizes& s, const GdnWeights& w, const GdnState& state, GdnTrace& t) {
  convolve_silu(s.channels(), s.conv_kernel, 0, s.channels(), t.xc.data(), w.conv1d.row<float>(0),
                state.conv_in, t.xcv.data());
  advance_conv_state(s.channels(), s.conv_kernel, 0, s.channels(), t.xc.data(), state.conv_in,
                     state.conv_out);
}

void step_normalise(const GdnSizes& s, const float* q, const float* k, GdnTrace& t) {
  const auto eps = static_cast<float>(s.qk_eps);
  const auto scale = static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(s.key_dim)));
  for (std::int64_t h = 0; h < s.key_heads; ++h) {
    const std::int64_t at = h * s.key_dim;
    normalise_head(s.key_dim, q + at, eps, true, scale, t.q.data() + at);
    normalise_head(s.key_dim, k + at, eps, false, 1.0f, t.k.data() + at);
  }
}

void step_recurrence(const GdnSizes& s, const float* v, const GdnState& state, GdnTrace& t) {
  const std::int64_t group = s.value_heads / s.key_heads;
  for (std::int64_t h = 0; h < s.value_heads; ++h) {
    const std::int64_t key = (h / group) * s.key_dim, value = h * s.value_dim,
                       matrix = h * s.key_dim * s.value_dim;
    const auto i = static_cast<std::size_t>(h);
    delta_head(s.key_dim, s.value_dim, t.q.data() + key, t.k.data() + key, v + value, t.g[i], t.beta[i],
               state.recurrent_in + matrix, state.recurrent_out + matrix, t.on.data() + value);
  }
}

void step_gated_norm(const GdnSizes& s, const GdnWeights& w, GdnTrace& t) {
  for (std::int64_t h = 0; h < s.value_heads; ++h) {
    const std::int64_t at = h * s.value_dim;
    gated_norm_head(s.value_dim, t.on.data() + at, t.z.data() + at, w.norm.row<float>(0),
                    static_cast<float>(s.norm_eps), t.onn.data() + at);
  }
}

}  // namespace

void q35_gdn_step(const GdnSizes& s, const GdnWeights& w, const float* x, const GdnState& state, GdnTrace& t,
                  float* out) {
  resize(s, t);
  step_projections(s, w, x, t);
  beta_and_g(s.value_heads, t.a.data(), t.b.data(), w.a_log.row<float>(0), w.dt_bias.row<float>(0),
             t.beta.data(), t.g.data());
  step_convolution(s, w, state, t);
  const float* q = t.xcv.data();
  const float* k = q + s.keys();
  const float* v = k + s.keys();
  step_normalise(s, q, k, t);
  step_recurrence(s, v, state, t);
  step_gated_norm(s, w, t);
  project(w.out_proj, w.activations, t.onn.data(), 0, s.hidden, out);
}

namespace {

void project_q4(const ConstTensor& weight, const float* x, std::int64_t begin, std::int64_t end, float* y) {
  const Q4Matrix q4 = q4_matrix(weight);
  for (std::int64_t row = begin; row < end; ++row) {
    y[row] = num::dot_q4(q4.row_levels(row), q4.row_scales(row), x, weight.shape[1]);
  }
}

void project_q4q8(const ConstTensor& weight, const float* x, std::int64_t begin, std::int64_t end, float* y) {
  const Q4Matrix q4 = q4_matrix(weight);
  const std::int64_t n = weight.shape[1];
  std::vector<std::int8_t> levels(static_cast<std::size_t>(n));
  std::vector<float> scales(static_cast<std::size_t>(q4.row_blocks));
  for (std::int64_t b = 0; b < q4.row_blocks; ++b) {
    scales[static_cast<std::size_t>(b)] = num::quantize_q8(x + b * kQ4Block, levels.data() + b * kQ4Block);
  }
  for (std::int64_t row = begin; row < end; ++row) {
    y[row] = num::dot_q4q8(q4.row_levels(row), q4.row_scales(row), levels.data(), scales.data(), n);
  }
}

}  // namespace

void project(const ConstTensor& weight, Activations activations, const float* x, std::int64_t begin,
             std::int64_t end, float* y) {
  const std::int64_t n = weight.shape[1];
  if (weight.dtype == DType::q4) {
    return activations == Activations::q8 ? project_q4q8(weight, x, begin, end, y)
                                          : project_q4(weight, x, begin, end, y);
  }
  for (std::int64_t row = begin; row < end; ++row) {
    y[row] = weight.dtype == DType::bf16 ? num::dot(weight.row<bf16>(row), x, n)
                                         : num::dot(weight.row<float>(row), x, n);
  }
}

void beta_and_g(std::int64_t value_heads, const float* a, const float* b, const float* a_log,
                const float* dt_bias, float* beta, float* g) {
  for (std::int64_t h = 0; h < value_heads; ++h) {
    beta[h] = num::sigmoid(b[h]);
    g[h] = -(num::exp(a_log[h]) * num::softplus(a[h] + dt_bias[h]));
  }
}

void convolve_silu(std::int64_t channels, std::int64_t kernel, std::int64_t begin, std::int64_t end,
                   const float* x, const float* weight, const float* state_in, float* y) {
  for (std::int64_t c = begin; c < end; ++c) {
    const float* w = weight + c * kernel;
    float sum = 0.0f;
    for (std::int64_t j = 0; j + 1 < kernel; ++j) sum = num::fma(w[j], state_in[j * channels + c], sum);
    y[c] = num::silu(num::fma(w[kernel - 1], x[c], sum));
  }
}

void advance_conv_state(std::int64_t channels, std::int64_t kernel, std::int64_t begin, std::int64_t end,
                        const float* x, const float* state_in, float* state_out) {
  for (std::int64_t c = begin; c < end; ++c) {
    for (std::int64_t j = 0; j + 2 < kernel; ++j)
      state_out[j * channels + c] = state_in[(j + 1) * channels + c];
    state_out[(kernel - 2) * channels + c] = x[c];
  }
}

void normalise_head(std::int64_t n, const float* x, float eps, bool scaled, float scale, float* y) {
  const float r = num::inverse_sqrt(num::sum_of_squares(x, n) + eps);
  for (std::int64_t i = 0; i < n; ++i) {
    const float unit = x[i] * r;
    y[i] = scaled ? unit * scale : unit;
  }
}

void delta_head(std::int64_t key_dim, std::int64_t value_dim, const float* q, const float* k, const float* v,
                float g, float beta, const float* state_in, float* state_out, float* o) {
  const float alpha = num::exp(g);
  std::vector<float> sums(static_cast<std::size_t>(slices(key_dim)));
  const int count = static_cast<int>(sums.size());
  for (std::int64_t j = 0; j < value_dim; ++j) {  // columns are independent of each other
    sums.assign(sums.size(), 0.0f);
    for (std::int64_t i = 0; i < key_dim; ++i) {
      const float decayed = state_in[i * value_dim + j] * alpha;
      state_out[i * value_dim + j] = decayed;
      float& sum = sums[static_cast<std::size_t>(i / kSlice)];
      sum = num::fma(decayed, k[i], sum);
    }
    const float delta = (v[j] - num::join_neighbours(sums.data(), count)) * beta;
    sums.assign(sums.size(), 0.0f);
    for (std::int64_t i = 0; i < key_dim; ++i) {
      const float updated = num::fma(k[i], delta, state_out[i * value_dim + j]);
      state_out[i * value_dim + j] = updated;
      float& sum = sums[static_cast<std::size_t>(i / kSlice)];
      sum = num::fma(updated, q[i], sum);
    }
    o[j] = num::join_neighbours(sums.data(), count);
  }
}

void gated_norm_head(std::int64_t n, const float* o, const float* z, const float* weight, float eps,
                     float* y) {
  const float r = num::inverse_sqrt(num::sum_of_squares(o, n) / static_cast<float>(n) + eps);
  for (std::int64_t i = 0; i < n; ++i) y[i] = (weight[i] * (o[i] * r)) * num::silu(z[i]);
}

}  // namespace tandem::cpu
