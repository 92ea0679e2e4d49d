#!/usr/bin/env python3
"""Writes the tables of Unicode in this folder. Nobody needs it to build; it says where the numbers are from.

usage: generate.py categories|normal_form

Token ids equal those of the Python package `tokenizers` (0.20 to 0.23) only if both know the same Unicode. The package
knows two versions: its regular expressions (Oniguruma) are of Unicode 16.0.0, its NFC is of Unicode 9.0.0. Each
command reads the module `unicodedata2` or `unicodedata` of the Python that runs it, and stops when that is of another
version:
  categories    16.0.0: any Python with PyPI's unicodedata2==16.0.0
  normal_form   9.0.0: Python 3.6, or an older one with unicodedata2==9.0.0.post4
"""

import pathlib
import sys
import unicodedata

try:
    import unicodedata2 as ucd
except ImportError:
    ucd = unicodedata

FOLDER = pathlib.Path(__file__).parent
WIDTH = 118
# In the order of core/text/unicode/categories.hpp.
CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn").split()
CODE_POINTS = range(0x110000)


def array(kind, name, comment, items):
    """Lines of a constexpr array."""
    lines = ["/// " + comment, "constexpr {} {}[] = {{".format(kind, name)]
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > WIDTH:
            lines.append(line)
            line = "   "
        line += " " + item + ","
    return lines + [line, "};"]


def runs(value_of):
    """(first code point, value) of each stretch of code points with one value."""
    last = None
    for code_point in CODE_POINTS:
        value = value_of(chr(code_point))
        if value != last:
            yield code_point, value
        last = value


def categories():
    items = ["0x{:x}".format(first << 5 | CATEGORIES.index(value)) for first, value in runs(ucd.category)]
    return array("std::uint32_t", "kCategoryRuns",
                 "Where a run of code points of one general category begins: code point << 5 | category.", items)


def canonical(character):
    """One step of canonical decomposition: one or two code points, or none."""
    text = ucd.decomposition(character)
    return [] if text.startswith("<") else [int(part, 16) for part in text.split()]


def normal_form():
    marks = ["0x{:x}".format(first << 8 | value) for first, value in runs(ucd.combining)]
    steps = []
    for code_point in CODE_POINTS:
        parts = canonical(chr(code_point))
        if parts:
            composes = len(parts) == 2 and ucd.normalize("NFC", chr(code_point)) == chr(code_point)
            first, second = parts if len(parts) == 2 else (parts[0], 0)
            steps.append("{{0x{:x}, 0x{:x}, 0x{:x}, {:d}}}".format(code_point, first, second, composes))
    return (array("std::uint32_t", "kMarkRuns",
                  "Where a run of code points of one combining class begins: code point << 8 | class.", marks) + [""] +
            array("Decomposition", "kDecompositions",
                  "Canonical decompositions, one step each, without Hangul: code point, first, second (or 0), and "
                  "whether the pair composes.", steps))


TABLES = {"categories": (categories, "16.0.0"), "normal_form": (normal_form, "9.0.0")}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in TABLES:
        sys.exit(__doc__)
    make, version = TABLES[sys.argv[1]]
    if ucd.unidata_version != version:
        sys.exit("expected Unicode {}, found {} in this Python's {}".format(version, ucd.unidata_version, ucd.__name__))
    lines = ["// Made by generate.py from Unicode {}. Do not edit.".format(version), "// clang-format off", ""]
    (FOLDER / (sys.argv[1] + ".inc")).write_text("\n".join(lines + make()) + "\n")


if __name__ == "__main__":
    main()
