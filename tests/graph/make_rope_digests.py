#!/usr/bin/env python3
"""Prints the digests that rope_test.cpp compares: rotary tables by mpmath, every value rounded once to float. Needs mpmath.

usage: make_rope_digests.py
"""

import struct

import mpmath

POSITIONS = 2100


def nearest_float(value):
    """Correctly rounded to 24 bits; no value is subnormal."""
    with mpmath.workprec(24):
        return float(+value)


def digest(values):
    result = 0
    for value in values:
        bits, = struct.unpack("<I", struct.pack("<f", value))
        result = (result ^ bits) * 0x100000001B3 % 2**64
    return result


def main():
    mpmath.mp.prec = 160
    for theta, pairs in ((1e4, 8), (11947.0, 8), (1e7, 32)):
        frequencies = [mpmath.power(mpmath.mpf(theta), -mpmath.mpf(i) / pairs) for i in range(pairs)]
        both = [mpmath.cos_sin(p * f) for p in range(POSITIONS) for f in frequencies]
        print(f"{{{theta!r}, {pairs}, {digest(nearest_float(c) for c, _ in both)}u, {digest(nearest_float(s) for _, s in both)}u}},")


if __name__ == "__main__":
    main()
