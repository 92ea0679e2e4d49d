#!/usr/bin/env python3
"""Fails where a result would depend on the host's libm: transcendental functions of <cmath> in core, state, graph and the backends
(the reference backend excepted, which is compared with a tolerance), and in the tools. core/numerics.hpp and core/numerics64.hpp
have functions of the house.

usage: check_math.py SOURCE_ROOT
"""

import pathlib
import re
import sys

import house

FOLDERS = ("core", "state", "graph", "backends", "tools")
# Judges with a tolerance, in float64; and the place of marks on a drawn axis.
EXEMPT = ("backends/reference/", "tools/html/chart.cpp")
NAMES = ("exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|sin|cos|tan|sincos|asin|acos|atan|atan2|sinh|cosh|tanh|asinh|acosh|atanh|"
         "cbrt|hypot|erf|erfc|tgamma|lgamma")
# exp(x), std::exp(x), expf(x), ::exp(x), __builtin_exp(x), &std::exp; not num::exp(x), a.log(), log_sum_exp(x) or exp64(x).
QUALIFIED = re.compile(rf"\bstd\s*::\s*({NAMES})[fl]?\b|\b__builtin_({NAMES})[fl]?\b")
PLAIN = re.compile(rf"(?<![\w.>])(?<!\w::)(?:::)?(?:{NAMES})[fl]?\s*\(")
INTRINSIC = re.compile(r"\b__(?:exp|exp10|log|log2|log10|pow|sin|cos|tan|sincos)f\s*\(")
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
# It defines exp and calls it by that name.
OWN = ("core/numerics.hpp",)


def violations(root):
    found = []
    for path in house.files(root, house.CODE, FOLDERS):
        name = path.as_posix()
        if name.startswith(EXEMPT):
            continue
        text = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), (root / path).read_text())
        patterns = (QUALIFIED, INTRINSIC) if name in OWN else (QUALIFIED, INTRINSIC, PLAIN)
        for number, line in enumerate(text.split("\n"), 1):
            hit = next((m for m in (p.search(line) for p in patterns) if m), None)
            if hit:
                found.append(f"{path}:{number}: {hit.group().strip()}: differs between libraries; use core/numerics64.hpp or core/numerics.hpp")
    return found


PLANTED = {
    "core/a.cpp": "double a = std::exp(x);\n// std::exp(x)\ndouble b = tandem::exp64(x);\n",
    "core/numerics.hpp": "float sigmoid(float x) { return exp(x); }\nfloat bad(float x) { return __builtin_expf(x); }\n",
    "state/b.cpp": "double b = 1 + pow(x, 2);\ndouble c = ::sin (x);\nchar d[] = \"log(x)\";\n",
    "graph/c.cpp": "float c = num::exp(x) + log_sum_exp(x) + table.cos(1) + p->sin(2);\nauto f = &std::log1p;\n",
    "backends/cpu/d.cpp": "float d = expf(x);\n",
    "backends/cuda/e.cu": "float e = __expf(x);\n",
    "backends/reference/f.cpp": "double f = std::exp(x);\n",
    "tools/g.cpp": "double g = std::log(x);\n",
    "tests/h.cpp": "double h = std::log(x);\n",
}


def main():
    with house.Report() as report:
        with house.planted(PLANTED) as root:
            report.catches("transcendentals", violations(root), "core/a.cpp:1", "core/numerics.hpp:2", "state/b.cpp:1", "state/b.cpp:2",
                           "graph/c.cpp:2", "backends/cpu/d.cpp:1", "backends/cuda/e.cu:1", "tools/g.cpp:1")
        report.check("no transcendental function of the host's library decides a bit", violations(pathlib.Path(sys.argv[1])))


if __name__ == "__main__":
    main()
