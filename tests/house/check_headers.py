#!/usr/bin/env python3
"""Compiles every header alone: whoever includes one must not need to know what else to include first.

A header that its own source includes before anything else (x.hpp first in x.cpp) is compiled alone by the build already, and left
out here: that halves the time. Not so in tools and tests, whose sources tools/test compiles as one.

usage: check_headers.py SOURCE_ROOT COMPILER...
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

import house

LIBRARIES = ("tbb", "eigen3", "CLI11", "nlohmann_json", "fmt", "libpcre2-8", "libxxhash")
FLAGS = ["-fsyntax-only", "-x", "c++", "-std=c++20", "-fmax-errors=1", "-Wall", "-Wextra"]
FIRST_INCLUDE = re.compile(r"^[^\S\n]*#\s*include\s*([<\"].*[>\"])", re.MULTILINE)
CUDA_INCLUDE = re.compile(r"#\s*include\s*<(cuda|cublas|nccl)")


def library_flags():
    """Include folders of the libraries; Debian's are all on the default path but Eigen's."""
    flags = []
    for name in LIBRARIES:
        try:
            answer = subprocess.run(["pkg-config", "--cflags", name], capture_output=True, text=True, check=False)
        except OSError:
            return []
        flags += answer.stdout.split()
    return [f"-isystem{flag[2:]}" if flag.startswith("-I") else flag for flag in flags]


def is_first_in_its_source(root, header):
    source = (root / header).with_suffix(".cpp")
    if not source.exists() or header.parts[0] in ("tools", "tests"):
        return False
    first = FIRST_INCLUDE.search(source.read_text())
    return first is not None and first[1] in (f'"{header.as_posix()}"', f'"{header.name}"')


def flags_for(header):
    # The kernels are compiled once for each instruction set, inside a namespace of that name.
    return ["-DTANDEM_ISA=baseline"] if header.parts[:3] == ("backends", "cpu", "kernels") else []


def compile_alone(root, compiler, flags, header):
    """The compiler's message, or None."""
    command = compiler + FLAGS + flags + flags_for(header) + [f"-I{root}", "-"]
    source = f'#include "{header.as_posix()}"\n'
    answer = subprocess.run(command, input=source, capture_output=True, text=True, cwd=root, check=False)
    return None if answer.returncode == 0 else answer.stderr.strip() or f"the compiler ended with {answer.returncode}"


def compile_all(root, compiler, headers):
    flags = library_flags()
    # Other tests run beside this one.
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda h: compile_alone(root, compiler, flags, h), headers))


def self_test(report, compiler):
    contents = {"core/good.hpp": "#pragma once\n#include <vector>\nstd::vector<int> f();\n",
                "core/bad.hpp": "#pragma once\nstd::vector<int> f();\n",
                "core/bad.cpp": '// A comment.\n#include <vector>\n#include "core/bad.hpp"\n',
                "core/proved.hpp": "", "core/proved.cpp": '#include "core/proved.hpp"\n'}
    with house.planted(contents) as root:
        headers = house.files(root, [".hpp"])
        left = [h.name for h in headers if not is_first_in_its_source(root, h)]
        messages = compile_all(root, compiler, headers)
    report.check("self-test: which headers the build compiles alone", [] if left == ["bad.hpp", "good.hpp"] else [left])
    report.catches("a header that needs another one first", [m for m in messages if m], "vector")


def main():
    root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2:]
    with house.Report() as report:
        self_test(report, compiler)
        headers = house.files(root, [".hpp"])
        cuda = [h for h in headers if CUDA_INCLUDE.search((root / h).read_text())]
        for header in cuda:
            report.skip(f"{header} compiles alone", "it is for nvcc, which is not asked here")
        proved = [h for h in headers if is_first_in_its_source(root, h)]
        report.check(f"{len(proved)} headers come first in their own source", [])
        headers = [h for h in headers if h not in cuda and h not in proved]
        for header, message in zip(headers, compile_all(root, compiler, headers)):
            report.check(f"{header} compiles alone", [message] if message else [])


if __name__ == "__main__":
    main()
