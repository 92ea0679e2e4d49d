#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <functional>
#include <vector>

#include "tests/reference/support.hpp"

namespace tandem::test {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

class GdnOpsTest : public ReferenceTest {};

TEST_F(GdnOpsTest, GatesEqualTheirFormulas) {
  const Array<double> a = random_array("a", Shape{4, 3}, 2, 0, /*gap=*/1);
  const Array<double> b = random_array("b", Shape{4, 3}, 2, 0, /*gap=*/2);
  const Array<float> a_log = random_weight("A_log", Shape{3});
  const Array<float> dt_bias = random_weight("dt_bias", Shape{3});
  Array<double> beta(Shape{4, 3}, /*gap=*/3), g(Shape{4, 3}, /*gap=*/4);
  submit(GdnGates{a.view(), b.view(), a_log.view(), dt_bias.view(), beta.view(), g.view()});
  std::vector<long double> expected_beta, expected_g;
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t h = 0; h < 3; ++h) {
      const long double s = static_cast<long double>(a.at(i, h)) + dt_bias.at(h, 0);
      expected_beta.push_back(1 / (1 + std::exp(-static_cast<long double>(b.at(i, h)))));
      expected_g.push_back(-std::exp(static_cast<long double>(a_log.at(h, 0))) * std::log(1 + std::exp(s)));
    }
  }
  EXPECT_LE(relative_difference(beta.values(), expected_beta), kRounding);
  EXPECT_LE(relative_difference(g.values(), expected_g), kRounding);
  EXPECT_TRUE(beta.gaps_intact() && g.gaps_intact());
}

TEST_F(GdnOpsTest, SoftplusIsTheIdentityAboveTwentyOnly) {
  Array<double> a(Shape{4, 1}), b(Shape{4, 1}), beta(Shape{4, 1}), g(Shape{4, 1});
  const std::vector<double> inputs = {20.0, 20.5, 5000.0, -5000.0};
  for (std::int64_t i = 0; i < 4; ++i) a.at(i, 0) = b.at(i, 0) = inputs[static_cast<std::size_t>(i)];
  const Array<float> zero = {0.0F};
  submit(GdnGates{a.view(), b.view(), zero.view(), zero.view(), beta.view(), g.view()});
  EXPECT_NEAR(g.at(0, 0), -(20.0 + std::exp(-20.0)), 1e-14);
  EXPECT_EQ(g.at(1, 0), -20.5);
  EXPECT_EQ(g.at(2, 0), -5000.0);
  EXPECT_EQ(g.at(3, 0), 0.0);
  EXPECT_EQ(beta.at(2, 0), 1.0);
  EXPECT_EQ(beta.at(3, 0), 0.0);
}

TEST_F(GdnOpsTest, QkNormDividesByTheRootOfTheSum) {
  Array<double> q_in(Shape{1, 2, 2}, /*gap=*/1), k_in(Shape{1, 2, 2}, /*gap=*/3);
  q_in.at(0, 0) = 3;
  q_in.at(0, 1) = -4;
  k_in.at(0, 2) = 1;
  k_in.at(0, 3) = 2;
  Array<double> q(Shape{1, 2, 2}, /*gap=*/2), k(Shape{1, 2, 2});
  // 9 + 16 + eps = 36 for q's head 0, 1 + 4 + eps = 16 for k's head 1; heads of zeros stay zero.
  submit(GdnQkNorm{q_in.view(), k_in.view(), 11.0F, 0.5F, q.view(), k.view()});
  EXPECT_LE(relative_difference(q.values(), std::vector<double>{0.25, -1.0 / 3, 0, 0}), kRounding);
  EXPECT_EQ(k.values(), (std::vector<double>{0, 0, 0.25, 0.5}));
  EXPECT_TRUE(q.gaps_intact());
}

TEST_F(GdnOpsTest, GatedNormEqualsItsFormula) {
  const Array<double> o = random_array("o", Shape{3, 2, 5}, 1, 0, /*gap=*/1);
  const Array<double> z = random_array("z", Shape{3, 2, 5}, 2, 0, /*gap=*/2);
  const Array<float> weight = random_weight("norm", Shape{5}, 0.2, 1);
  constexpr float kEps = 0.125F;
  Array<double> y(Shape{3, 2, 5}, /*gap=*/3);
  submit(GdnGatedNorm{o.view(), z.view(), weight.view(), kEps, y.view()});
  std::vector<double> expected;
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t h = 0; h < 2; ++h) {
      double squares = 0;
      for (std::int64_t j = 0; j < 5; ++j) squares += o.at(i, h, j) * o.at(i, h, j);
      for (std::int64_t j = 0; j < 5; ++j) {
        const double gate = z.at(i, h, j) / (1 + std::exp(-z.at(i, h, j)));
        expected.push_back(weight.at(j, 0) * o.at(i, h, j) / std::sqrt(squares / 5 + kEps) * gate);
      }
    }
  }
  EXPECT_LE(relative_difference(y.values(), expected), kRounding);
  EXPECT_TRUE(y.gaps_intact());
}

constexpr std::int64_t kTaps = 4;
constexpr std::int64_t kChannels = 5;

/// The convolution by its definition: a direct sum over state and rows laid end to end.
std::vector<double> direct_convolution(const std::vector<double>& padded, const Array<float>& weight) {
  const auto tokens = static_cast<std::int64_t>(padded.size()) / kChannels - (kTaps - 1);
  std::vector<double> y;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t c = 0; c < kChannels; ++c) {
      double sum = 0;
      for (std::int64_t j = 0; j < kTaps; ++j) {
        sum += weight.at(c, j) * padded[static_cast<std::size_t>((t + j) * kChannels + c)];
      }
      y.push_back(sum / (1 + std::exp(-sum)));
    }
  }
  return y;
}

std::vector<double> joined(std::vector<double> a, const std::vector<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Three sequences of 1, 6 and 2 tokens in one step: fewer than the state, more than it, and fewer again.
TEST_F(GdnOpsTest, ConvolutionOfARaggedBatchIsTheDirectSum) {
  const Array<double> x = random_array("x", Shape{9, kChannels}, 1, 0, /*gap=*/3);
  const Array<float> weight = random_weight("conv", Shape{kChannels, kTaps});
  Array<double> y(Shape{9, kChannels}, /*gap=*/2);
  std::vector<Array<double>> in, out;
  for (const char* name : {"s0", "s1", "s2"}) {
    in.push_back(random_array(name, Shape{kTaps - 1, kChannels}));
    out.emplace_back(Shape{kTaps - 1, kChannels});
  }
  const std::vector<RowRange> ranges = {{0, 1}, {1, 6}, {7, 2}};
  std::vector<ConvSegment> segments;
  for (std::size_t s = 0; s < 3; ++s) segments.push_back({ranges[s], in[s].view(), out[s].view()});
  submit(GdnConv{x.view(), weight.view(), segments, y.view()});

  for (std::size_t s = 0; s < 3; ++s) {
    const std::vector<double> padded = joined(in[s].values(), x.values(ranges[s].first_row, ranges[s].rows));
    EXPECT_LE(relative_difference(y.values(ranges[s].first_row, ranges[s].rows),
                                  direct_convolution(padded, weight)),
              kRounding);
    EXPECT_EQ(out[s].values(), std::vector<double>(padded.end() - (kTaps - 1) * kChannels, padded.end()));
  }
  EXPECT_TRUE(y.gaps_intact());
}

TEST_F(GdnOpsTest, ConvolutionStepByStepEqualsAllAtOnce) {
  constexpr std::int64_t kTokens = 9;
  const Array<double> x = random_array("x", Shape{kTokens, kChannels});
  const Array<float> weight = random_weight("conv", Shape{kChannels, kTaps});
  const Array<double> start = random_array("s", Shape{kTaps - 1, kChannels});
  Array<double> whole(Shape{kTokens, kChannels}), steps(Shape{kTokens, kChannels}), end(start.shape());
  const ConvSegment all{{0, kTokens}, start.view(), end.view()};
  submit(GdnConv{x.view(), weight.view(), {&all, 1}, whole.view()});

  Array<double> state = start;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    Array<double> next(start.shape());
    const ConvSegment one{{0, 1}, state.view(), next.view()};
    submit(GdnConv{x.view({t, 1}), weight.view(), {&one, 1}, steps.view({t, 1})});
    state = next;
  }
  EXPECT_EQ(steps.values(), whole.values());
  EXPECT_EQ(state.values(), end.values());
}

/// Inputs of the delta rule as the layer makes them: unit keys, scaled unit queries, g <= 0, beta in (0, 1).
struct DeltaCase {
  static constexpr std::int64_t kKeyHeads = 2, kValueHeads = 6, kDk = 8, kDv = 5;
  static Shape state_shape() { return {kValueHeads, kDk, kDv}; }

  explicit DeltaCase(std::int64_t tokens, std::int64_t gap = 0)
      : q(random_array("q", Shape{tokens, kKeyHeads, kDk}, 0.3, 0, gap)),
        k(random_array("k", Shape{tokens, kKeyHeads, kDk}, 0.35, 0, 2 * gap)),
        v(random_array("v", Shape{tokens, kValueHeads, kDv}, 1, 0, 3 * gap)),
        g(random_array("g", Shape{tokens, kValueHeads}, 0.4, -1.5, gap)),
        beta(random_array("beta", Shape{tokens, kValueHeads}, 0.1, 0.5, gap)),
        o(Shape{tokens, kValueHeads, kDv}, gap),
        state_in(random_array("S", state_shape())),
        state_out(state_shape()) {}

  GdnDelta op(std::span<const DeltaSegment> segments) {
    return {q.view(), k.view(), v.view(), g.view(), beta.view(), segments, o.view()};
  }
  /// Some rows as a step of their own.
  GdnDelta op(const RowRange& rows, const DeltaSegment& segment) {
    return {q.view(rows),    k.view(rows),  v.view(rows), g.view(rows),
            beta.view(rows), {&segment, 1}, o.view(rows)};
  }
  DeltaSegment whole() { return {{0, q.rows()}, state_in.view(), state_out.view()}; }

  static Eigen::Map<const Vector> head(const Array<double>& t, std::int64_t i, std::int64_t h) {
    return {&t.at(i, h, 0), t.shape()[2]};
  }
  static std::int64_t key_head(std::int64_t h) { return h / 3; }
  static Matrix state(const Array<double>& s, std::int64_t h) {
    return Eigen::Map<const Eigen::Matrix<double, kDk, kDv, Eigen::RowMajor>>(s.row(h));
  }

  Array<double> q, k, v, g, beta, o, state_in, state_out;
};

/// Outputs [tokens, Dv] and the final state of one value head by another formula than the backend's.
struct HeadResult {
  Matrix outputs;
  Matrix state;
};

void expect_heads(const DeltaCase& c, const std::function<HeadResult(std::int64_t)>& expected) {
  for (std::int64_t h = 0; h < DeltaCase::kValueHeads; ++h) {
    const HeadResult want = expected(h);
    Matrix outputs(c.q.rows(), DeltaCase::kDv);
    for (std::int64_t t = 0; t < c.q.rows(); ++t) outputs.row(t) = DeltaCase::head(c.o, t, h).transpose();
    EXPECT_LE((outputs - want.outputs).cwiseAbs().maxCoeff(), kRounding) << "outputs of head " << h;
    EXPECT_LE((DeltaCase::state(c.state_out, h) - want.state).cwiseAbs().maxCoeff(), kRounding)
        << "state of head " << h;
  }
}

/// The one-pass form: with the old S, m = e^g S^T k, d = beta (v - m), o = e^g S^T q + (k.q) d, S' = e^g S +
/// k d^T.
HeadResult one_pass(const DeltaCase& c, std::int64_t h) {
  HeadResult r{Matrix(c.q.rows(), DeltaCase::kDv), DeltaCase::state(c.state_in, h)};
  for (std::int64_t t = 0; t < c.q.rows(); ++t) {
    const Vector q = DeltaCase::head(c.q, t, DeltaCase::key_head(h));
    const Vector k = DeltaCase::head(c.k, t, DeltaCase::key_head(h));
    const double decay = std::exp(c.g.at(t, h));
    const Vector d = c.beta.at(t, h) * (DeltaCase::head(c.v, t, h) - decay * r.state.transpose() * k);
    r.outputs.row(t) = decay * r.state.transpose() * q + k.dot(q) * d;
    r.state = (decay * r.state + k * d.transpose()).eval();
  }
  return r;
}

/// The chunked rule with all tokens in one chunk, by a triangular solve (Yang, Kautz, Hatamizadeh 2024,
/// section 3).
HeadResult one_chunk(const DeltaCase& c, std::int64_t h) {
  const std::int64_t n = c.q.rows();
  Matrix q(n, DeltaCase::kDk), k(n, DeltaCase::kDk), v(n, DeltaCase::kDv);
  Vector beta(n), sum(n);
  double total = 0;
  for (std::int64_t t = 0; t < n; ++t) {
    q.row(t) = DeltaCase::head(c.q, t, DeltaCase::key_head(h)).transpose();
    k.row(t) = DeltaCase::head(c.k, t, DeltaCase::key_head(h)).transpose();
    v.row(t) = DeltaCase::head(c.v, t, h).transpose();
    beta[t] = c.beta.at(t, h);
    sum[t] = total += c.g.at(t, h);
  }
  Matrix lower = Matrix::Identity(n, n), attention = Matrix::Zero(n, n);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      const double decay = std::exp(sum[i] - sum[j]);
      attention(i, j) = q.row(i).dot(k.row(j)) * decay;
      if (j < i) lower(i, j) = beta[i] * k.row(i).dot(k.row(j)) * decay;
    }
  }
  const Vector grown = sum.array().exp();
  const auto solve = [&](const Matrix& right) -> Matrix {
    return lower.triangularView<Eigen::UnitLower>().solve(right);
  };
  const Matrix u = solve(beta.asDiagonal() * v);
  const Matrix w = solve((beta.array() * grown.array()).matrix().asDiagonal() * k);
  const Matrix start = DeltaCase::state(c.state_in, h);
  const Matrix fresh = u - w * start;
  const Vector left = (total - sum.array()).exp();
  return {grown.asDiagonal() * (q * start) + attention * fresh,
          std::exp(total) * start + k.transpose() * (left.asDiagonal() * fresh)};
}

TEST_F(GdnOpsTest, DeltaRuleEqualsItsOnePassForm) {
  DeltaCase c(40, /*gap=*/3);
  const DeltaSegment segment = c.whole();
  submit(c.op({&segment, 1}));
  expect_heads(c, [&](std::int64_t h) { return one_pass(c, h); });
  EXPECT_TRUE(c.o.gaps_intact());
}

TEST_F(GdnOpsTest, DeltaRuleEqualsItsChunkedForm) {
  for (const std::int64_t tokens : {1, 5, 64}) {
    DeltaCase c(tokens);
    const DeltaSegment segment = c.whole();
    submit(c.op({&segment, 1}));
    expect_heads(c, [&](std::int64_t h) { return one_chunk(c, h); });
  }
}

// From an empty state one token gives o = beta (k.q) v, exactly what it was told.
TEST_F(GdnOpsTest, DeltaRuleOfOneTokenByHand) {
  Array<double> q(Shape{1, 1, 2}), k(Shape{1, 1, 2}), v(Shape{1, 1, 1}), g(Shape{1, 1}), beta(Shape{1, 1});
  q.at(0, 0) = 3;
  q.at(0, 1) = 5;
  k.at(0, 0) = 1;
  k.at(0, 1) = 2;
  v.at(0, 0) = 7;
  g.at(0, 0) = std::log(0.5);
  beta.at(0, 0) = 0.25;
  Array<double> in(Shape{1, 2, 1}), out(Shape{1, 2, 1}), o(Shape{1, 1, 1});
  in.at(0, 0) = 4;
  // S = [4, 0] halves to [2, 0]; it recalls 2 for k; d = (7 - 2) / 4; S' = [3.25, 2.5]; o = 3 * 3.25 + 5
  // * 2.5.
  const DeltaSegment segment{{0, 1}, in.view(), out.view()};
  submit(GdnDelta{q.view(), k.view(), v.view(), g.view(), beta.view(), {&segment, 1}, o.view()});
  EXPECT_EQ(out.values(), (std::vector<double>{3.25, 2.5}));
  EXPECT_EQ(o.at(0, 0), 22.25);
  EXPECT_EQ(in.values(), (std::vector<double>{4, 0})) << "the state that was read must stay";
}

TEST_F(GdnOpsTest, DeltaRuleStepByStepEqualsAllAtOnce) {
  DeltaCase whole(11), steps(11);
  const DeltaSegment all = whole.whole();
  submit(whole.op({&all, 1}));
  Array<double> state = steps.state_in;
  for (std::int64_t t = 0; t < 11; ++t) {
    Array<double> next(DeltaCase::state_shape());
    const DeltaSegment one{{0, 1}, state.view(), next.view()};
    submit(steps.op({t, 1}, one));
    state = next;
  }
  EXPECT_EQ(steps.o.values(), whole.o.values());
  EXPECT_EQ(state.values(), whole.state_out.values());
}

TEST_F(GdnOpsTest, DeltaRuleOfARaggedBatchEqualsEachSequenceAlone) {
  const std::vector<RowRange> ranges = {{0, 3}, {3, 1}, {4, 4}};
  std::vector<Array<double>> in, out;
  for (const char* name : {"S0", "S1", "S2"}) {
    in.push_back(random_array(name, DeltaCase::state_shape()));
    out.emplace_back(DeltaCase::state_shape());
  }
  DeltaCase batch(8, /*gap=*/1);
  std::vector<DeltaSegment> segments;
  for (std::size_t s = 0; s < 3; ++s) segments.push_back({ranges[s], in[s].view(), out[s].view()});
  submit(batch.op(segments));
  for (std::size_t s = 0; s < 3; ++s) {
    DeltaCase alone(8);
    const DeltaSegment one{{0, ranges[s].rows}, in[s].view(), alone.state_out.view()};
    submit(alone.op(ranges[s], one));
    EXPECT_EQ(batch.o.values(ranges[s].first_row, ranges[s].rows),
              alone.o.values(ranges[s].first_row, ranges[s].rows));
    EXPECT_EQ(out[s].values(), alone.state_out.values());
  }
}

}  // namespace
}  // namespace tandem::test
