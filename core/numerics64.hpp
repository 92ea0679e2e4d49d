#pragma once

#include "core/double_double.hpp"

/// Transcendental functions in binary64, in place of the host's <cmath>, whose bits differ between libraries
/// and between processors. Used wherever a result depends on them: rotary tables, A_log of GGUF files,
/// scores, sampling. They consist of +, -, *, / and integer operations in a written order, so they give the
/// same bits on every machine that rounds to nearest and keeps subnormals.
///
/// The errors named below are the largest of 500,000 to 2,000,000 random arguments over the range, against
/// libquadmath (113 bits); tests/unit/numerics64_test.cpp repeats a sample against values by mpmath.
///
/// Thread-safety: all functions are pure.
namespace tandem {

/// e^x. At most 0.62 ULP, and 0.77 ULP where the result is subnormal. NaN stays NaN; infinite above 709.79, 0
/// below -745.14. Cody-Waite reduction by n = round(x / ln 2), Taylor's polynomial of degree 14.
double exp64(double x);

/// The natural logarithm. At most 0.50001 ULP: it is precise_log, rounded. NaN for negative numbers and NaN,
/// -infinity for 0.
double log64(double x);

// The functions below return about 100 bits. Rounded to float that is the correctly rounded result, except
// where the true value lies as near to the middle between two floats as the error is large; a measurement can
// exclude that.

/// e^x. REQUIRES: |x| <= 600. Relative error at most 2^-105: Taylor's series of degree 29 after a reduction
/// by ln 2.
DoubleDouble precise_exp(const DoubleDouble& x);

/// The natural logarithm. REQUIRES: x is positive and finite. Relative error at most 2^-103: with x = 2^k m
/// and m in [sqrt(1/2), sqrt(2)) it is k ln 2 + 2 atanh((m - 1) / (m + 1)), by atanh's series.
DoubleDouble precise_log(double x);

/// base^exponent = e^(exponent * ln base). REQUIRES: base is positive and finite, |exponent * ln base| <=
/// 600. Relative error at most 2^-99 for bases up to 10^17 and exponents in (-1, 0].
DoubleDouble precise_power(double base, const DoubleDouble& exponent);

struct SinCos {
  DoubleDouble sin;
  DoubleDouble cos;
};

/// Sine and cosine. REQUIRES: |x| <= 2^30. Absolute error at most 2^-104: reduction by multiples of pi / 2,
/// which is given in three doubles, then Taylor's series.
SinCos precise_sincos(const DoubleDouble& x);

}  // namespace tandem
