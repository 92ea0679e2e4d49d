#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <vector>

#include "tests/reference/support.hpp"

namespace tandem::test {
namespace {

class AttentionOpsTest : public ReferenceTest {};

/// cos and sin of theta^(-2i/R) * position, [positions, R/2].
struct RopeTables {
  RopeTables(std::int64_t positions, std::int64_t rotary_dim)
      : cos(Shape{positions, rotary_dim / 2}), sin(Shape{positions, rotary_dim / 2}) {
    for (std::int64_t p = 0; p < positions; ++p) {
      for (std::int64_t i = 0; i < rotary_dim / 2; ++i) {
        const double angle = static_cast<double>(p) *
                             std::pow(1e4, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
        cos.at(p, i) = std::cos(angle);
        sin.at(p, i) = std::sin(angle);
      }
    }
  }

  Array<double> cos, sin;
};

// Three heads of six, the first four elements rotated, interleaved with gates as q_proj leaves them.
TEST_F(AttentionOpsTest, HeadNormRopeTurnsPairsAsComplexNumbers) {
  constexpr std::int64_t kHeads = 3, kWidth = 6, kHalf = 2, kStride = 2 * kWidth;
  constexpr float kEps = 0.25F;
  const Array<double> projected = random_array("qg", Shape{4, kHeads * kStride}, 1, 0, /*gap=*/5);
  const Array<float> weight = random_weight("norm", Shape{kWidth}, 0.2);
  const RopeTables tables(20, 2 * kHalf);
  const Array<std::int32_t> positions = {7, 0, 19, 7};
  const ConstTensor x(projected.row(0), DType::f64, Shape{4, kHeads, kWidth}, projected.view().row_stride);
  Array<double> y(Shape{4, kHeads, kWidth}, /*gap=*/1);
  submit(HeadNormRope{x, kStride, weight.view(), kEps, tables.cos.view(), tables.sin.view(), positions.view(),
                      y.view()});

  std::vector<double> expected;
  for (std::int64_t t = 0; t < 4; ++t) {
    const std::int32_t p = positions.at(t, 0);
    for (std::int64_t h = 0; h < kHeads; ++h) {
      std::vector<double> head(projected.row(t) + h * kStride, projected.row(t) + h * kStride + kWidth);
      double squares = 0;
      for (const double e : head) squares += e * e;
      for (std::size_t j = 0; j < kWidth; ++j) {
        head[j] *= (1.0 + weight.at(static_cast<std::int64_t>(j), 0)) / std::sqrt(squares / kWidth + kEps);
      }
      for (std::size_t i = 0; i < kHalf; ++i) {
        const auto column = static_cast<std::int64_t>(i);
        const std::complex<double> turned =
            std::complex<double>(head[i], head[i + kHalf]) *
            std::complex<double>(tables.cos.at(p, column), tables.sin.at(p, column));
        head[i] = turned.real();
        head[i + kHalf] = turned.imag();
      }
      expected.insert(expected.end(), head.begin(), head.end());
    }
  }
  EXPECT_LE(relative_difference(y.values(), expected), kRounding);
  EXPECT_TRUE(y.gaps_intact());
}

TEST_F(AttentionOpsTest, HeadNormRopeMayWriteOverItsInput) {
  Array<double> x = random_array("x", Shape{2, 2, 4});
  const Array<float> weight = random_weight("norm", Shape{4});
  const RopeTables tables(3, 4);
  const Array<std::int32_t> positions = {1, 2};
  Array<double> y(x.shape());
  HeadNormRope op{x.view(),         4,       weight.view(), 1e-6F, tables.cos.view(), tables.sin.view(),
                  positions.view(), y.view()};
  submit(op);
  op.y = x.view();
  submit(op);
  EXPECT_EQ(x.values(), y.values());
}

TEST_F(AttentionOpsTest, SigmoidGateReadsInterleavedGates) {
  constexpr std::int64_t kHeads = 2, kWidth = 3, kStride = 2 * kWidth;
  const Array<double> projected = random_array("qg", Shape{3, kHeads * kStride}, 3, 0, /*gap=*/2);
  Array<double> x = random_array("x", Shape{3, kHeads, kWidth}, 1, 0, /*gap=*/1);
  const ConstTensor gate(projected.row(0) + kWidth, DType::f64, Shape{3, kHeads, kWidth},
                         projected.view().row_stride);
  Array<double> y(x.shape(), /*gap=*/4);
  submit(SigmoidGate{x.view(), gate, kStride, y.view()});
  std::vector<double> expected;
  for (std::int64_t t = 0; t < 3; ++t) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      for (std::int64_t j = 0; j < kWidth; ++j) {
        expected.push_back(x.at(t, h, j) / (1 + std::exp(-projected.at(t, h * kStride + kWidth + j))));
      }
    }
  }
  EXPECT_LE(relative_difference(y.values(), expected), kRounding);
  EXPECT_TRUE(y.gaps_intact());

  submit(SigmoidGate{x.view(), gate, kStride, x.view()});
  EXPECT_EQ(x.values(), y.values());
}

constexpr std::int64_t kHeads = 6;
constexpr std::int64_t kKvHeads = 2;
constexpr std::int64_t kWidth = 4;

/// One sequence's pages, NaN where nothing was written.
class Pages {
 public:
  Pages(std::int64_t tokens, std::int64_t page_tokens)
      : page_tokens_(page_tokens),
        memory_(static_cast<std::size_t>((tokens + page_tokens - 1) / page_tokens),
                std::vector<double>(static_cast<std::size_t>(2 * kKvHeads * page_tokens * kWidth),
                                    std::nan(""))) {
    for (std::vector<double>& page : memory_) pointers_.push_back(page.data());
  }

  KvSegment segment(RowRange range, std::int64_t position) const { return {range, position, pointers_}; }
  /// Element j of the key (which = 0) or value (which = 1) of a position.
  double at(std::int64_t which, std::int64_t kv_head, std::int64_t position, std::int64_t j) const {
    const std::int64_t slot = (which * kKvHeads + kv_head) * page_tokens_ + position % page_tokens_;
    return memory_[static_cast<std::size_t>(position / page_tokens_)]
                  [static_cast<std::size_t>(slot * kWidth + j)];
  }

 private:
  std::int64_t page_tokens_;
  std::vector<std::vector<double>> memory_;
  std::vector<void*> pointers_;
};

/// Queries, keys and values of a step.
struct Step {
  explicit Step(std::int64_t tokens, std::int64_t gap = 0, double query_scale = 1)
      : q(random_array("q", Shape{tokens, kHeads, kWidth}, query_scale, 0, gap)),
        k(random_array("k", Shape{tokens, kKvHeads, kWidth}, 1, 0, 2 * gap)),
        v(random_array("v", Shape{tokens, kKvHeads, kWidth}, 1, 0, 3 * gap)),
        o(Shape{tokens, kHeads, kWidth}, gap) {}

  KvAppend append(std::int64_t page_tokens, std::span<const KvSegment> segments) const {
    return {k.view(), v.view(), page_tokens, segments};
  }
  /// Token t alone.
  KvAppend append_one(std::int64_t t, const KvSegment& segment) const {
    return {k.view({t, 1}), v.view({t, 1}), 4, {&segment, 1}};
  }
  Attention attention_of_one(std::int64_t t, const KvSegment& segment) {
    return {q.view({t, 1}), kKvHeads, 0.5F, 4, {&segment, 1}, o.view({t, 1})};
  }
  Attention attention(std::int64_t page_tokens, std::span<const KvSegment> segments) {
    return {q.view(), kKvHeads, 0.5F, page_tokens, segments, o.view()};
  }

  Array<double> q, k, v, o;
};

/// Softmax attention of rows [first, first + rows) over each other, written out densely in extended
/// precision.
std::vector<double> dense_attention(const Step& s, const RowRange& range) {
  std::vector<double> o;
  for (std::int64_t t = range.first_row; t < range.first_row + range.rows; ++t) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const std::int64_t kv = h / (kHeads / kKvHeads);
      std::vector<long double> sums(kWidth);
      long double total = 0;
      for (std::int64_t u = range.first_row; u <= t; ++u) {
        long double score = 0;
        for (std::int64_t j = 0; j < kWidth; ++j)
          score += static_cast<long double>(s.q.at(t, h, j)) * s.k.at(u, kv, j);
        const long double weight = std::exp(score / 2);
        total += weight;
        for (std::int64_t j = 0; j < kWidth; ++j)
          sums[static_cast<std::size_t>(j)] += weight * s.v.at(u, kv, j);
      }
      for (const long double sum : sums) o.push_back(static_cast<double>(sum / total));
    }
  }
  return o;
}

TEST_F(AttentionOpsTest, KvAppendPutsEachPositionInItsPlace) {
  const Step step(5, /*gap=*/1);
  const Pages pages(8, /*page_tokens=*/4);
  // Positions 2 .. 6, over a page's end.
  const KvSegment segment = pages.segment({0, 5}, 2);
  submit(step.append(4, {&segment, 1}));
  for (std::int64_t h = 0; h < kKvHeads; ++h) {
    for (std::int64_t j = 0; j < kWidth; ++j) {
      for (std::int64_t t = 0; t < 5; ++t) {
        EXPECT_EQ(pages.at(0, h, t + 2, j), step.k.at(t, h, j));
        EXPECT_EQ(pages.at(1, h, t + 2, j), step.v.at(t, h, j));
      }
      for (const std::int64_t untouched : {0, 1, 7}) {
        EXPECT_TRUE(std::isnan(pages.at(0, h, untouched, j)) && std::isnan(pages.at(1, h, untouched, j)));
      }
    }
  }
}

TEST_F(AttentionOpsTest, AttentionEqualsADenseSoftmaxWhateverThePages) {
  for (const std::int64_t page_tokens : {1, 4, 9, 64}) {
    Step step(9, /*gap=*/2);
    const Pages pages(9, page_tokens);
    const KvSegment segment = pages.segment({0, 9}, 0);
    submit(step.append(page_tokens, {&segment, 1}));
    submit(step.attention(page_tokens, {&segment, 1}));
    EXPECT_LE(relative_difference(step.o.values(), dense_attention(step, {0, 9})), kRounding)
        << page_tokens << " tokens a page";
    EXPECT_TRUE(step.o.gaps_intact());
  }
}

TEST_F(AttentionOpsTest, AttentionOfARaggedBatchEqualsEachSequenceAlone) {
  const std::vector<RowRange> ranges = {{0, 4}, {4, 1}, {5, 7}};
  Step step(12, /*gap=*/1);
  std::vector<Pages> pages;
  for (const RowRange& range : ranges) pages.emplace_back(range.rows, 4);
  std::vector<KvSegment> segments;
  for (std::size_t s = 0; s < 3; ++s) segments.push_back(pages[s].segment(ranges[s], 0));
  submit(step.append(4, segments));
  submit(step.attention(4, segments));
  for (const RowRange& range : ranges) {
    EXPECT_LE(relative_difference(step.o.values(range.first_row, range.rows), dense_attention(step, range)),
              kRounding);
  }
}

TEST_F(AttentionOpsTest, AttentionStepByStepEqualsAllAtOnce) {
  Step whole(10), steps(10);
  const Pages whole_pages(10, 4), step_pages(10, 4);
  const KvSegment all = whole_pages.segment({0, 10}, 0);
  submit(whole.append(4, {&all, 1}));
  submit(whole.attention(4, {&all, 1}));
  for (std::int64_t t = 0; t < 10; ++t) {
    const KvSegment one = step_pages.segment({0, 1}, t);
    submit(steps.append_one(t, one));
    submit(steps.attention_of_one(t, one));
  }
  EXPECT_EQ(steps.o.values(), whole.o.values());
}

// Scores in the tens of thousands: e^score overflows, the softmax does not, and one position takes all.
TEST_F(AttentionOpsTest, AttentionOfHugeScoresPicksTheHighest) {
  Step step(6, 0, /*query_scale=*/1e5);
  const Pages pages(6, 4);
  const KvSegment segment = pages.segment({0, 6}, 0);
  submit(step.append(4, {&segment, 1}));
  submit(step.attention(4, {&segment, 1}));
  for (std::int64_t h = 0; h < kHeads; ++h) {
    const std::int64_t kv = h / (kHeads / kKvHeads);
    std::int64_t best = 0;
    double best_score = -HUGE_VAL;
    for (std::int64_t u = 0; u < 6; ++u) {
      double score = 0;
      for (std::int64_t j = 0; j < kWidth; ++j) score += step.q.at(5, h, j) * step.k.at(u, kv, j);
      if (score > best_score) best = u, best_score = score;
    }
    for (std::int64_t j = 0; j < kWidth; ++j) EXPECT_EQ(step.o.at(5, h, j), step.v.at(best, kv, j));
  }
}

}  // namespace
}  // namespace tandem::test
