#!/usr/bin/env python3
"""Kernels compiled for an instruction set must share no symbol with code outside: of several definitions of an inline function the
linker keeps one for all, and that one could be code which the machine cannot run.

usage: check_symbols.py COMPILER NM LIBRARY...   (the libraries libtandem_cpu_ISA.a; the baseline is not looked at)
"""

import pathlib
import shlex
import subprocess
import sys
import tempfile

import house

# Defined weak (W, V) and unique (u) symbols are those that the linker merges. w and v are references.
MERGED = set("WVu")


def shared_symbols(nm, library):
    answer = subprocess.run([*nm, "--defined-only", "--demangle", str(library)], capture_output=True, text=True, check=True)
    for line in answer.stdout.splitlines():
        # "ADDRESS KIND NAME"; other lines name the member.
        parts = line.split(maxsplit=2)
        if len(parts) == 3 and parts[1] in MERGED:
            yield f"{library.name}: {parts[1]} {parts[2]}"


def self_test(report, compiler, nm):
    code = ("inline int planted(int x) { static int calls = 0; return x + ++calls; }\n"
            "namespace { int hidden(int x) { return x + 1; } }\n"
            "int exported(int x) { return planted(x) + hidden(x); }\n")
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "planted.o")
        subprocess.run([*compiler, "-x", "c++", "-O0", "-c", "-", "-o", str(output)], input=code, text=True, check=True)
        report.catches("an inline function", shared_symbols(nm, output), "W planted(int)", "u planted(int)::calls")


def main():
    compiler, nm = shlex.split(sys.argv[1]), shlex.split(sys.argv[2])
    libraries = [pathlib.Path(a) for a in sys.argv[3:] if not a.endswith("_baseline.a")]
    with house.Report() as report:
        self_test(report, compiler, nm)
        if not libraries:
            report.skip("kernels share no symbols", "only the baseline is compiled here")
        for library in libraries:
            report.check(f"{library.name} shares no symbols", shared_symbols(nm, library))


if __name__ == "__main__":
    main()
