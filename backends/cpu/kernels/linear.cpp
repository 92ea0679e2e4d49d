#include "backends/cpu/kernels/dot.hpp"
#include "backends/cpu/kernels/set.hpp"

namespace tandem::cpu::TANDEM_ISA {
namespace {

/// Tokens that share one walk over a weight row: more would spill their chains.
constexpr int kTokens = 4;
/// Steps whose chains stay in registers: all of them for one token, fewer for several.
constexpr int kOneTokenGroup = kVectors;
template <class W>
constexpr int kManyTokensGroup = (kWidth == 16 ? 4 : 2) / Step<W>::kParts;

/// Rows of x as the weights' type wants them.
struct Rows {
  const float* first;
  std::int64_t stride;
};

Rows lay_out(const Linear& op, std::int64_t token, int, const float*) {
  return {op.x.row<float>(token), op.x.row_stride};
}

Rows lay_out(const Linear& op, std::int64_t token, int tokens, const bf16*) {
  const std::int64_t n = op.x.row_elements(), stride = paired_size(n);
  float* rows = thread_scratch(stride * tokens);
  for (int t = 0; t < tokens; ++t) pair_up(op.x.row<float>(token + t), n, rows + t * stride);
  return {rows, stride};
}

template <class W, int tokens, int group>
void some_tokens(const Linear& op, std::int64_t token, std::int64_t begin, std::int64_t end) {
  const Rows x = lay_out(op, token, tokens, static_cast<const W*>(nullptr));
  const std::int64_t n = op.x.row_elements();
  for (std::int64_t row = begin; row < end; ++row) {
    float products[tokens];
    dot_tokens<W, tokens, group>(op.weight.row<W>(row), x.first, x.stride, n, products);
    for (int t = 0; t < tokens; ++t) {
      float* y = op.y.row<float>(token + t) + row;
      *y = op.residual ? op.residual.row<float>(token + t)[row] + products[t] : products[t];
    }
  }
}

template <class W>
void all_tokens(const Linear& op, std::int64_t begin, std::int64_t end) {
  std::int64_t t = 0;
  for (; t + kTokens <= op.x.rows(); t += kTokens)
    some_tokens<W, kTokens, kManyTokensGroup<W>>(op, t, begin, end);
  for (; t < op.x.rows(); ++t) some_tokens<W, 1, kOneTokenGroup>(op, t, begin, end);
}

}  // namespace

void linear(const Linear& op, std::int64_t begin, std::int64_t end) {
  if (op.weight.dtype == DType::q4) {
    q4_linear(op, begin, end);
  } else if (op.weight.dtype == DType::bf16) {
    all_tokens<bf16>(op, begin, end);
  } else {
    all_tokens<float>(op, begin, end);
  }
}

}  // namespace tandem::cpu::TANDEM_ISA
