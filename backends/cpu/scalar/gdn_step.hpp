#pragma once

#include <cstdint>
#include <vector>

#include "core/ops.hpp"

/// The definition of a Gated DeltaNet layer, one token at a time: the steps of Yang, Kautz, Hatamizadeh,
/// "Gated Delta Networks" (2024), as Qwen3.5 uses them. Each step is a function in plain loops; together they
/// are q35_gdn_step. Every other kernel, on every backend, is compared with these bit for bit. Vectors are
/// f32 in host memory.
namespace tandem::cpu {

struct GdnSizes {
  std::int64_t hidden = 0;
  std::int64_t key_heads = 0;    ///< Nk
  std::int64_t value_heads = 0;  ///< Nv, a multiple of Nk
  std::int64_t key_dim = 0;      ///< Dk, of one head
  std::int64_t value_dim = 0;    ///< Dv, of one head
  std::int64_t conv_kernel = 0;  ///< K
  double norm_eps = 1e-6;        ///< of the gated norm
  double qk_eps = 1e-6;          ///< of the q/k normalisation

  std::int64_t keys() const { return key_heads * key_dim; }
  std::int64_t values() const { return value_heads * value_dim; }
  std::int64_t channels() const { return 2 * keys() + values(); }
};

/// Matrices are f32 or bf16, those of the three large projections also q4, [out, in]; vectors are f32.
struct GdnWeights {
  ConstTensor in_proj_qkv;                      ///< [C, hidden]: q rows, k rows, v rows
  ConstTensor in_proj_z;                        ///< [Nv*Dv, hidden]
  ConstTensor in_proj_b;                        ///< [Nv, hidden]
  ConstTensor in_proj_a;                        ///< [Nv, hidden]
  ConstTensor conv1d;                           ///< f32 [C, K]
  ConstTensor a_log;                            ///< f32 [Nv]
  ConstTensor dt_bias;                          ///< f32 [Nv]
  ConstTensor norm;                             ///< f32 [Dv]
  ConstTensor out_proj;                         ///< [hidden, Nv*Dv]
  Activations activations = Activations::real;  ///< of the large projections that are q4
};

/// What a layer remembers of a sequence. A step reads one and writes another.
struct GdnState {
  const float* recurrent_in;  ///< [Nv, Dk, Dv]
  float* recurrent_out;
  const float* conv_in;  ///< [K-1, C], oldest first
  float* conv_out;
};

/// Every intermediate vector of one step, by the names that the oracle uses.
struct GdnTrace {
  std::vector<float> xc;    ///< [C] projection, before the convolution
  std::vector<float> z;     ///< [Nv*Dv]
  std::vector<float> b;     ///< [Nv]
  std::vector<float> a;     ///< [Nv]
  std::vector<float> beta;  ///< [Nv]
  std::vector<float> g;     ///< [Nv]
  std::vector<float> xcv;   ///< [C] after convolution and silu
  std::vector<float> q;     ///< [Nk*Dk] normalised and scaled
  std::vector<float> k;     ///< [Nk*Dk] normalised
  std::vector<float> on;    ///< [Nv*Dv] out of the recurrence
  std::vector<float> onn;   ///< [Nv*Dv] after the gated norm
};

/// One token through the layer: out[hidden] from x[hidden] (already normed by the block) and the state.
/// REQUIRES: the state's in and out memory do not overlap.
void q35_gdn_step(const GdnSizes& sizes, const GdnWeights& weights, const float* x, const GdnState& state,
                  GdnTrace& trace, float* out);

// The steps, in their order. Sizes as above; a function takes one token.

/// 1 and 8. Projection: y[row] = dot(weight[row], x) for rows [begin, end). `activations` says how a q4
/// weight takes x; other weights take it as it is.
void project(const ConstTensor& weight, Activations activations, const float* x, std::int64_t begin,
             std::int64_t end, float* y);

/// 2. beta = sigmoid(b); g = -(exp(A_log) * softplus(a + dt_bias)).
void beta_and_g(std::int64_t value_heads, const float* a, const float* b, const float* a_log,
                const float* dt_bias, float* beta, float* g);

/// 3. Convolution over [state | x] and silu, channels [begin, end): oldest tap first, fma from +0.
void convolve_silu(std::int64_t channels, std::int64_t kernel, std::int64_t begin, std::int64_t end,
                   const float* x, const float* weight, const float* state_in, float* y);
/// ... and the memory moves on by one token: the oldest input leaves, x enters. In place is allowed.
void advance_conv_state(std::int64_t channels, std::int64_t kernel, std::int64_t begin, std::int64_t end,
                        const float* x, const float* state_in, float* state_out);

/// 4. The split is a view: q = xcv[0 .. Nk*Dk), k = the next Nk*Dk, v = the rest.

/// 5. One head: y = (x * (1 / sqrt(sum(x^2) + eps))), times scale if it is a query (keys pass scale 1 as
/// `scaled = false`).
void normalise_head(std::int64_t n, const float* x, float eps, bool scaled, float scale, float* y);

/// 6. The gated delta rule of one value head: S is [Dk, Dv]; in place is allowed.
void delta_head(std::int64_t key_dim, std::int64_t value_dim, const float* q, const float* k, const float* v,
                float g, float beta, const float* state_in, float* state_out, float* o);

/// 7. One head: y = (weight * (o * (1 / sqrt(mean(o^2) + eps)))) * silu(z).
void gated_norm_head(std::int64_t n, const float* o, const float* z, const float* weight, float eps,
                     float* y);

}  // namespace tandem::cpu
