#include "graph/run/rope.hpp"

#include <algorithm>
#include <type_traits>

#include "core/numerics64.hpp"

namespace tandem {
namespace {

/// Positions between two evaluations of the functions themselves.
constexpr std::int64_t kBlock = 256;

/// theta^(-i / pairs)
std::vector<DoubleDouble> frequencies(std::int64_t pairs, double theta) {
  std::vector<DoubleDouble> all;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const DoubleDouble exponent =
        DoubleDouble(static_cast<double>(i)) / DoubleDouble(static_cast<double>(pairs));
    all.push_back(precise_power(theta, -exponent));
  }
  return all;
}

/// Sine and cosine of position * frequency, for all frequencies.
void append_sincos(std::vector<SinCos>& to, std::int64_t position, const std::vector<DoubleDouble>& all) {
  for (const DoubleDouble& frequency : all)
    to.push_back(precise_sincos(DoubleDouble(static_cast<double>(position)) * frequency));
}

SinCos sincos_of_sum(const SinCos& a, const SinCos& b) {
  return {a.sin * b.cos + a.cos * b.sin, a.cos * b.cos - a.sin * b.sin};
}

template <class Real>
Real rounded(const DoubleDouble& x) {
  if constexpr (std::is_same_v<Real, float>) {
    return round_to_float(x);
  } else {
    return x.high;
  }
}

}  // namespace

template <class Real>
RopeTable<Real> make_rope_table(std::int64_t positions, std::int64_t pairs, double theta) {
  const std::vector<DoubleDouble> all = frequencies(pairs, theta);
  std::vector<SinCos> first;  // of the first block, [kBlock, pairs]
  for (std::int64_t position = 0; position < std::min(kBlock, positions); ++position)
    append_sincos(first, position, all);

  RopeTable<Real> table;
  table.cos.reserve(static_cast<std::size_t>(positions * pairs));
  table.sin.reserve(static_cast<std::size_t>(positions * pairs));
  std::vector<SinCos> start;  // of the block's first position, [pairs]
  for (std::int64_t position = 0; position < positions; ++position) {
    const std::int64_t inside = position % kBlock;
    if (inside == 0) {
      start.clear();
      append_sincos(start, position, all);
    }
    for (std::int64_t i = 0; i < pairs; ++i) {
      const SinCos value = sincos_of_sum(start[static_cast<std::size_t>(i)],
                                         first[static_cast<std::size_t>(inside * pairs + i)]);
      table.cos.push_back(rounded<Real>(value.cos));
      table.sin.push_back(rounded<Real>(value.sin));
    }
  }
  return table;
}

template RopeTable<float> make_rope_table(std::int64_t, std::int64_t, double);
template RopeTable<double> make_rope_table(std::int64_t, std::int64_t, double);

}  // namespace tandem
