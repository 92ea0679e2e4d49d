#include "core/numerics64.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace tandem {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;
constexpr DoubleDouble kLn2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

/// The whole number nearest to x, for |x| < 2^51: adding 1.5 * 2^52 leaves no room for a fraction.
double nearest_integer(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

/// 2^k for k in [-1022, 1023].
double power_of_two(std::int64_t k) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(k + 1023) << 52);
}

/// 1 / 0!, 1 / 1!, ... The compiler computes them.
template <std::size_t kCount>
constexpr std::array<DoubleDouble, kCount> inverse_factorials() {
  std::array<DoubleDouble, kCount> all;
  all[0] = 1.0;
  for (std::size_t k = 1; k < kCount; ++k) all[k] = all[k - 1] / DoubleDouble(static_cast<double>(k));
  return all;
}

constexpr std::size_t kTerms = 30;
constexpr std::array<DoubleDouble, kTerms> kInverseFactorial = inverse_factorials<kTerms>();

/// 1 / first! + x / (first + step)! + x^2 / (first + 2 step)! + ... below kTerms, by Horner's rule. From
/// `plain` on, terms are too small for their low parts to count.
DoubleDouble series(const DoubleDouble& x, std::size_t first, std::size_t step, std::size_t plain) {
  const std::size_t last = first + (kTerms - 1 - first) / step * step;
  std::size_t k = last;
  double tail = kInverseFactorial[k].high;
  while (k > plain) {
    k -= step;
    tail = kInverseFactorial[k].high + x.high * tail;
  }
  DoubleDouble sum = tail;
  while (k > first) {
    k -= step;
    sum = kInverseFactorial[k] + x * sum;
  }
  return sum;
}

}  // namespace

double exp64(double x) {
  if (!(x <= 710)) return x > 710 ? kInfinity : x;
  if (x < -746) return 0;
  const double n = nearest_integer(x * kInverseLn2);
  const double high = x - n * 0x1.62e42fee00000p-1;  // the product is exact: 11 and 32 bits
  const double low = n * 0x1.a39ef35793c76p-33;
  const double r = high - low, missing = (high - r) - low;
  // e^r = 1 + r + r^2 q
  double q = kInverseFactorial[14].high;
  for (std::size_t k = 13; k >= 2; --k) q = kInverseFactorial[k].high + r * q;
  const DoubleDouble sum = quick_sum(1.0, r);
  const double result = sum.high + (r * r * q + (sum.low + (missing + missing * r)));
  // In two factors, so that a subnormal result is rounded once.
  const auto power = static_cast<std::int64_t>(n), half = power >> 1;
  return (result * power_of_two(half)) * power_of_two(power - half);
}

double log64(double x) {
  if (!(x >= 0)) return kNaN;
  if (x == 0) return -kInfinity;
  if (x == kInfinity) return x;
  return precise_log(x).high;
}

DoubleDouble precise_exp(const DoubleDouble& x) {
  const double n = nearest_integer(x.high * kInverseLn2);
  // ln 2 in three parts; the first two products are exact.
  const DoubleDouble r =
      ((x - n * 0x1.62e42fefa3800p-1) - n * 0x1.ef35793c76000p-45) - n * 0x1.cc01f97b57a08p-87;
  const DoubleDouble result = series(r, 0, 1, 14);
  const double scale = power_of_two(static_cast<std::int64_t>(n));
  return {result.high * scale, result.low * scale};
}

DoubleDouble precise_log(double x) {
  std::int64_t k = 0;
  if (x < 0x1p-1022) {  // subnormal
    x *= 0x1p54;
    k = -54;
  }
  constexpr std::uint64_t kRootOfHalf = 0x3fe6a09e667f3bcd;  // sqrt(1/2), as bits
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::int64_t power = static_cast<std::int64_t>(bits - kRootOfHalf) >> 52;
  k += power;
  const double m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(power) << 52));
  const DoubleDouble s = exact_sum(m, -1.0) / exact_sum(m, 1.0), square = s * s;
  DoubleDouble sum = 0.0;
  for (int i = 45; i >= 1; i -= 2)
    sum = DoubleDouble(1.0) / DoubleDouble(static_cast<double>(i)) + square * sum;
  return DoubleDouble(static_cast<double>(k)) * kLn2 + DoubleDouble(2.0) * (s * sum);
}

DoubleDouble precise_power(double base, const DoubleDouble& exponent) {
  return precise_exp(exponent * precise_log(base));
}

SinCos precise_sincos(const DoubleDouble& x) {
  const double n = nearest_integer(x.high * 0x1.45f306dc9c883p-1);
  const DoubleDouble r =
      ((x - exact_product(n, 0x1.921fb54442d18p+0)) - exact_product(n, 0x1.1a62633145c07p-54)) -
      n * -0x1.f1976b7ed8fbcp-110;
  const DoubleDouble minus_square = -(r * r);
  const DoubleDouble sin = r * series(minus_square, 1, 2, 17), cos = series(minus_square, 0, 2, 18);
  switch (static_cast<std::int64_t>(n) & 3) {
    case 0:
      return {sin, cos};
    case 1:
      return {cos, -sin};
    case 2:
      return {-sin, -cos};
    default:
      return {-cos, sin};
  }
}

}  // namespace tandem
