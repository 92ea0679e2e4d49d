#include <algorithm>
#include <cassert>
#include <cmath>

#include "backends/reference/functions.hpp"
#include "backends/reference/kernels.hpp"
#include "backends/reference/views.hpp"

/// The operators of a full-attention layer.
namespace tandem::reference {
namespace {

/// The layout of a page: real [2, Hkv, page_tokens, D], keys before values.
struct PageLayout {
  std::int64_t kv_heads;
  std::int64_t page_tokens;
  std::int64_t width;

  double* keys(void* page, std::int64_t kv_head) const {
    return static_cast<double*>(page) + kv_head * page_tokens * width;
  }
  double* values(void* page, std::int64_t kv_head) const { return keys(page, kv_heads + kv_head); }
};

/// x[i], x[i + R/2] turned by the angle whose cosine and sine are cos[i] and sin[i], for i in [0, R/2).
void rotate(Eigen::ArrayXd& x, const double* cos, const double* sin, std::int64_t half) {
  for (std::int64_t i = 0; i < half; ++i) {
    const double a = x[i];
    const double b = x[i + half];
    x[i] = a * cos[i] - b * sin[i];
    x[i + half] = b * cos[i] + a * sin[i];
  }
}

/// Plain softmax attention of one query head over the first `scores.size()` positions of the pages.
void attend(const ConstVectorMap& q, const KvSegment& segment, const PageLayout& layout, std::int64_t kv_head,
            double scale, Vector& scores, VectorMap o) {
  const std::int64_t length = scores.size();
  const auto tokens_from = [&](std::int64_t start) { return std::min(layout.page_tokens, length - start); };
  const auto page_of = [&](std::int64_t start) {
    return segment.pages[static_cast<std::size_t>(start / layout.page_tokens)];
  };
  for (std::int64_t start = 0; start < length; start += layout.page_tokens) {
    const std::int64_t count = tokens_from(start);
    const ConstMatrixMap keys(layout.keys(page_of(start), kv_head), count, layout.width);
    scores.segment(start, count).noalias() = keys * q;
  }
  scores *= scale;
  const double highest = scores.maxCoeff();
  scores = scores.unaryExpr([highest](double s) { return std::exp(s - highest); });
  scores /= scores.sum();
  o.setZero();
  for (std::int64_t start = 0; start < length; start += layout.page_tokens) {
    const std::int64_t count = tokens_from(start);
    const ConstMatrixMap values(layout.values(page_of(start), kv_head), count, layout.width);
    o.noalias() += values.transpose() * scores.segment(start, count);
  }
}

}  // namespace

void run(const HeadNormRope& op) {
  const Eigen::ArrayXd factor = 1.0 + widened_vector(op.weight);
  Eigen::ArrayXd head(op.x.shape[2]);
  for (std::int64_t i = 0; i < op.x.rows(); ++i) {
    const std::int32_t position = *op.positions.row<std::int32_t>(i);
    assert(position >= 0 && position < op.cos.rows());
    for (std::int64_t h = 0; h < op.x.shape[1]; ++h) {
      const ConstArrayMap x = head_array(op.x, i, h, op.head_stride);
      head = rms_normalized(x, op.eps) * factor;
      rotate(head, op.cos.row<double>(position), op.sin.row<double>(position), op.cos.row_elements());
      head_array(op.y, i, h) = head;
    }
  }
}

void run(const KvAppend& op) {
  const PageLayout layout{op.k.shape[1], op.page_tokens, op.k.shape[2]};
  for (const KvSegment& segment : op.segments) {
    for (std::int64_t r = 0; r < segment.range.rows; ++r) {
      const std::int64_t row = segment.range.first_row + r;
      const std::int64_t position = segment.position + r;
      void* page = segment.pages[static_cast<std::size_t>(position / op.page_tokens)];
      const std::int64_t offset = position % op.page_tokens * layout.width;
      for (std::int64_t h = 0; h < layout.kv_heads; ++h) {
        ArrayMap(layout.keys(page, h) + offset, layout.width) = head_array(op.k, row, h);
        ArrayMap(layout.values(page, h) + offset, layout.width) = head_array(op.v, row, h);
      }
    }
  }
}

void run(const Attention& op) {
  const std::int64_t heads = op.q.shape[1];
  const std::int64_t width = op.q.shape[2];
  const PageLayout layout{op.kv_heads, op.page_tokens, width};
  Vector scores;
  for (const KvSegment& segment : op.segments) {
    for (std::int64_t r = 0; r < segment.range.rows; ++r) {
      const std::int64_t row = segment.range.first_row + r;
      scores.resize(segment.position + r + 1);
      for (std::int64_t h = 0; h < heads; ++h) {
        const ConstVectorMap q(op.q.row<double>(row) + h * width, width);
        const VectorMap o(op.o.row<double>(row) + h * width, width);
        attend(q, segment, layout, h / (heads / op.kv_heads), op.scale, scores, o);
      }
    }
  }
}

void run(const SigmoidGate& op) {
  for (std::int64_t i = 0; i < op.x.rows(); ++i) {
    for (std::int64_t h = 0; h < op.x.shape[1]; ++h) {
      const ConstArrayMap gate = head_array(op.gate, i, h, op.head_stride);
      head_array(op.y, i, h) = head_array(op.x, i, h) * gate.unaryExpr(&sigmoid);
    }
  }
}

}  // namespace tandem::reference
