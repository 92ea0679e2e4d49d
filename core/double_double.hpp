#pragma once

namespace tandem {

/// The unevaluated sum high + low of two doubles, with |low| at most half a unit in the last place of high:
/// about 106 bits. Only +, - and * of binary64 and their written order, so every machine gives the same bits;
/// products are split by Dekker and Veltkamp, as an fma is not everywhere an instruction.
///
/// Algorithms 6, 11 and 18 of M. Joldes, J.-M. Muller, V. Popescu: Tight and rigorous error bounds for basic
/// building blocks of double-word arithmetic, 2017. Relative errors, with u = 2^-53: sum 3 u^2 (under
/// cancellation too), product 7 u^2, quotient 10 u^2. REQUIRES: magnitudes between 2^-900 and 2^900, or 0,
/// for these bounds.
struct DoubleDouble {
  double high = 0;
  double low = 0;

  constexpr DoubleDouble() = default;
  constexpr DoubleDouble(double value) : high(value) {}
  constexpr DoubleDouble(double h, double l) : high(h), low(l) {}

  constexpr DoubleDouble operator-() const { return {-high, -low}; }
};

/// a + b exactly. REQUIRES: |a| >= |b|, or a is 0.
constexpr DoubleDouble quick_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

/// a + b exactly.
constexpr DoubleDouble exact_sum(double a, double b) {
  const double sum = a + b, from_b = sum - a, from_a = sum - from_b;
  return {sum, (a - from_a) + (b - from_b)};
}

/// a * b exactly.
constexpr DoubleDouble exact_product(double a, double b) {
  constexpr double kSplit = 0x1p27 + 1;
  const double scaled_a = a * kSplit, scaled_b = b * kSplit;
  const double a1 = scaled_a - (scaled_a - a), b1 = scaled_b - (scaled_b - b);
  const double a2 = a - a1, b2 = b - b1;
  const double product = a * b;
  return {product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2};
}

constexpr DoubleDouble operator+(const DoubleDouble& a, const DoubleDouble& b) {
  const DoubleDouble high = exact_sum(a.high, b.high), low = exact_sum(a.low, b.low);
  const DoubleDouble sum = quick_sum(high.high, high.low + low.high);
  return quick_sum(sum.high, sum.low + low.low);
}

constexpr DoubleDouble operator-(const DoubleDouble& a, const DoubleDouble& b) { return a + -b; }

constexpr DoubleDouble operator*(const DoubleDouble& a, const DoubleDouble& b) {
  const DoubleDouble product = exact_product(a.high, b.high);
  return quick_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

constexpr DoubleDouble operator/(const DoubleDouble& a, const DoubleDouble& b) {
  const double first = a.high / b.high;
  const DoubleDouble rest = a - b * DoubleDouble(first);
  const double second = rest.high / b.high;
  return quick_sum(first, second);
}

/// The nearest float: `high` alone could lie on the middle between two floats and hide on which side `low`
/// is. REQUIRES: |x| is below
/// the largest float.
constexpr float round_to_float(const DoubleDouble& x) {
  const auto nearest = static_cast<float>(x.high);
  const double rest = x.high - static_cast<double>(nearest);  // exact
  const auto beyond = static_cast<float>(x.high + rest);      // the next float, if `high` is the middle
  const bool is_middle = rest != 0 && static_cast<double>(beyond) - x.high == rest;
  const bool low_leaves = x.low != 0 && (x.low > 0) == (rest > 0);
  return is_middle && low_leaves ? beyond : nearest;
}

}  // namespace tandem
