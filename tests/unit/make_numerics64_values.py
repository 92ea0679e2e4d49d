#!/usr/bin/env python3
"""Writes numerics64_values.hpp: arguments in hexadecimal and the true results as sums of two doubles. Needs mpmath.

usage: make_numerics64_values.py > numerics64_values.hpp
"""

import random

import mpmath
from mpmath import mpf

mpmath.mp.prec = 600
RANDOM = random.Random(11)
SAMPLES = 48


def pair(value):
    """The two doubles whose sum is nearest to the value."""
    high = float(value)
    low = float(value - mpf(high))
    return f"{{{high.hex()}, {low.hex()}}}"


def table(name, rows, kind="Value"):
    print(f"inline constexpr {kind} {name}[] = {{")
    for row in rows:
        print("    {" + ", ".join(row) + "},")
    print("};\n")


def spread(*ranges):
    """Arguments, uniform in each of the ranges in turn."""
    return [RANDOM.uniform(*ranges[i % len(ranges)]) for i in range(SAMPLES)]


def rope_powers():
    thetas = [1e4, 1e6, 1e7, 11947.0, 1.5]
    for i in range(SAMPLES):
        pairs = RANDOM.choice([3, 32, 48, 64, 128])
        theta, k = thetas[i % len(thetas)], RANDOM.randrange(pairs)
        yield theta.hex(), f"{k}, {pairs}", pair(mpmath.power(mpf(theta), -mpf(k) / pairs))


def main():
    print("// Made by make_numerics64_values.py with mpmath (600 bits).")
    print("#pragma once\n\nnamespace tandem::test {\n")
    print("/// f(x) is the sum of the two doubles of `result`.")
    print("struct Value {\n  double x;\n  double result[2];\n};")
    print("/// theta^(-k / pairs)")
    print("struct PowerValue {\n  double theta;\n  int k;\n  int pairs;\n  double result[2];\n};")
    print("struct SinCosValue {\n  double x;\n  double sin[2];\n  double cos[2];\n};\n")
    table("kExpValues", [(x.hex(), pair(mpmath.exp(mpf(x)))) for x in spread((-599, 599), (-1, 1), (-30, 0))])
    table("kLogValues", [(x.hex(), pair(mpmath.log(mpf(x)))) for x in spread((0, 1), (0.9, 1.1), (1, 1e6), (0, 1e-300))])
    table("kPowerValues", rope_powers(), "PowerValue")
    angles = spread((-0.8, 0.8), (0, 262144), (-2.0**30, 2.0**30)) + [262143.0, 1048576.0, 0.0]
    table("kSinCosValues", [(x.hex(), pair(mpmath.sin(mpf(x))), pair(mpmath.cos(mpf(x)))) for x in angles], "SinCosValue")
    print("}  // namespace tandem::test")


if __name__ == "__main__":
    main()
