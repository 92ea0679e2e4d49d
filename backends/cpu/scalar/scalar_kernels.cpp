#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/kernels.hpp"
#include "backends/cpu/pages.hpp"
#include "backends/cpu/scalar/attention.hpp"
#include "backends/cpu/scalar/gdn_step.hpp"
#include "core/checksum.hpp"
#include "core/reduce.hpp"

/// The definition of every operator over a batch: the functions of one token (gdn_step.hpp, attention.hpp),
/// or a few lines here, in a loop over the units.
namespace tandem::cpu {
namespace {

void embed(const Embed& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = op.y.row_elements();
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t id = op.ids.row<std::int32_t>(0)[t];
    for (std::int64_t i = 0; i < width; ++i) {
      op.y.row<float>(t)[i] =
          op.table.dtype == DType::bf16 ? num::widen(op.table.row<bf16>(id)[i]) : op.table.row<float>(id)[i];
    }
  }
}

void gather_rows(const GatherRows& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t m = begin; m < end; ++m) {
    const std::int64_t row = op.rows.row<std::int32_t>(0)[m];
    std::copy_n(op.x.row<float>(row), op.x.row_elements(), op.y.row<float>(m));
  }
}

void rms_norm(const RmsNorm& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = op.x.row_elements();
  for (std::int64_t t = begin; t < end; ++t) {
    rms_norm_row(n, op.x.row<float>(t), op.weight.row<float>(0), static_cast<float>(op.eps),
                 op.y.row<float>(t));
  }
}

void linear(const Linear& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = 0; t < op.x.rows(); ++t) {
    std::vector<float> product(static_cast<std::size_t>(end));
    project(op.weight, op.activations, op.x.row<float>(t), begin, end, product.data());
    for (std::int64_t row = begin; row < end; ++row) {
      const float value = product[static_cast<std::size_t>(row)];
      op.y.row<float>(t)[row] = op.residual ? op.residual.row<float>(t)[row] + value : value;
    }
  }
}

void silu_mul(const SiluMul& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    for (std::int64_t i = 0; i < op.y.row_elements(); ++i) {
      op.y.row<float>(t)[i] = num::silu(op.gate.row<float>(t)[i]) * op.up.row<float>(t)[i];
    }
  }
}

void gdn_gates(const GdnGates& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    beta_and_g(op.a.row_elements(), op.a.row<float>(t), op.b.row<float>(t), op.a_log.row<float>(0),
               op.dt_bias.row<float>(0), op.beta.row<float>(t), op.g.row<float>(t));
  }
}

void gdn_conv(const GdnConv& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t channels = op.x.row_elements(), kernel = op.weight.row_elements();
  for (const ConvSegment& s : op.segments) {
    const float* memory = s.state_in.row<float>(0);
    for (std::int64_t t = s.range.first_row; t < s.range.first_row + s.range.rows; ++t) {
      const float* x = op.x.row<float>(t);
      convolve_silu(channels, kernel, begin, end, x, op.weight.row<float>(0), memory, op.y.row<float>(t));
      advance_conv_state(channels, kernel, begin, end, x, memory, s.state_out.row<float>(0));
      memory = s.state_out.row<float>(0);
    }
  }
}

void gdn_qk_norm(const GdnQkNorm& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t heads = op.q.shape[1], n = op.q.shape[2];
  const auto eps = static_cast<float>(op.eps), scale = static_cast<float>(op.scale);
  for (std::int64_t t = begin; t < end; ++t) {
    for (std::int64_t h = 0; h < heads; ++h) {
      normalise_head(n, op.q_in.row<float>(t) + h * n, eps, true, scale, op.q.row<float>(t) + h * n);
      normalise_head(n, op.k_in.row<float>(t) + h * n, eps, false, 1.0f, op.k.row<float>(t) + h * n);
    }
  }
}

void gdn_delta(const GdnDelta& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t heads = op.v.shape[1], key_dim = op.q.shape[2], value_dim = op.v.shape[2];
  const std::int64_t group = heads / op.q.shape[1], matrix = key_dim * value_dim;
  for (std::int64_t u = begin; u < end; ++u) {
    const DeltaSegment& s = op.segments[static_cast<std::size_t>(u / heads)];
    const std::int64_t h = u % heads, key = (h / group) * key_dim, value = h * value_dim;
    const float* in = s.state_in.row<float>(0) + h * matrix;
    float* out = s.state_out.row<float>(0) + h * matrix;
    for (std::int64_t t = s.range.first_row; t < s.range.first_row + s.range.rows; ++t) {
      delta_head(key_dim, value_dim, op.q.row<float>(t) + key, op.k.row<float>(t) + key,
                 op.v.row<float>(t) + value, op.g.row<float>(t)[h], op.beta.row<float>(t)[h], in, out,
                 op.o.row<float>(t) + value);
      in = out;
    }
  }
}

void gdn_gated_norm(const GdnGatedNorm& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t heads = op.o.shape[1], n = op.o.shape[2];
  for (std::int64_t u = begin; u < end; ++u) {
    const std::int64_t t = u / heads, at = (u % heads) * n;
    gated_norm_head(n, op.o.row<float>(t) + at, op.z.row<float>(t) + at, op.weight.row<float>(0),
                    static_cast<float>(op.eps), op.y.row<float>(t) + at);
  }
}

void head_norm_rope(const HeadNormRope& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t heads = op.y.shape[1], n = op.y.shape[2], half = op.cos.row_elements();
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t position = op.positions.row<std::int32_t>(0)[t];
    for (std::int64_t h = 0; h < heads; ++h) {
      float* y = op.y.row<float>(t) + h * n;
      rms_norm_row(n, op.x.row<float>(t) + h * op.head_stride, op.weight.row<float>(0),
                   static_cast<float>(op.eps), y);
      rotate_head(half, op.cos.row<float>(position), op.sin.row<float>(position), y);
    }
  }
}

void kv_append(const KvAppend& op, std::int64_t begin, std::int64_t end) {
  const PageShape shape{op.k.shape[1], op.page_tokens, op.k.shape[2]};
  for (std::int64_t t = begin; t < end; ++t) {
    const KvSegment& s = segment_of(op.segments, t);
    const std::int64_t position = s.position + t - s.range.first_row;
    for (std::int64_t h = 0; h < shape.kv_heads; ++h) {
      std::copy_n(op.k.row<float>(t) + h * shape.head_dim, shape.head_dim,
                  key_row(shape, s.pages, h, position));
      std::copy_n(op.v.row<float>(t) + h * shape.head_dim, shape.head_dim,
                  value_row(shape, s.pages, h, position));
    }
  }
}

void attention(const Attention& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t heads = op.q.shape[1];
  const PageShape shape{op.kv_heads, op.page_tokens, op.q.shape[2]};
  for (std::int64_t u = begin; u < end; ++u) {
    const std::int64_t t = u / heads, h = u % heads, at = h * shape.head_dim;
    const KvSegment& s = segment_of(op.segments, t);
    attend_head(shape, s.pages, h / (heads / op.kv_heads), s.position + t - s.range.first_row + 1,
                static_cast<float>(op.scale), op.q.row<float>(t) + at, op.o.row<float>(t) + at);
  }
}

void sigmoid_gate(const SigmoidGate& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t heads = op.x.shape[1], n = op.x.shape[2];
  for (std::int64_t t = begin; t < end; ++t) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < n; ++i) {
        op.y.row<float>(t)[h * n + i] =
            op.x.row<float>(t)[h * n + i] * num::sigmoid(op.gate.row<float>(t)[h * op.head_stride + i]);
      }
    }
  }
}

/// core/'s own, which is the definition.
void digest(const void* piece, std::size_t bytes, unsigned char* digest) {
  const PieceDigest result = piece_digest({static_cast<const std::byte*>(piece), bytes});
  std::memcpy(digest, result.data(), result.size());
}

}  // namespace

const KernelSet kScalarKernels = {
    "scalar",
    {embed, gather_rows, rms_norm, linear, silu_mul, gdn_gates, gdn_conv, gdn_qk_norm, gdn_delta,
     gdn_gated_norm, head_norm_rope, kv_append, attention, sigmoid_gate},
    digest};

}  // namespace tandem::cpu
