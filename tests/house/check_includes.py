#!/usr/bin/env python3
"""Reads every #include and fails on an arrow that the architecture does not have: graph -> state -> core <- backends, and inside
graph a room that includes one above it: session -> continuity -> run -> placement -> model.

usage: check_includes.py SOURCE_ROOT
"""

import pathlib
import re
import sys

import house

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
CUDA_CONDITION = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b.*\bTANDEM_HAVE_CUDA\b", re.MULTILINE)
CUDA_HEADER = re.compile(r"(^|/)(cuda|cublas|cudnn|curand|nccl|nvrtc|nvtx|nvml|mma\.h)|\.cuh$")
CUDA_FOLDERS = ("backends/cuda/", "tests/cuda/")
# What the backend shows to others: plain C++, an ordinary include.
CUDA_FACE = "backends/cuda/cuda_backend.hpp"

# Which layers a layer may include. "backends" is the few files directly in that folder, which know all backends;
# "backends/*" is any backend, and stands on the left for its own folder too.
ARROWS = {
    "core": {"core"},
    "state": {"state", "core"},
    "graph": {"graph", "state", "core"},
    "backends": {"backends", "backends/*", "core"},
    "backends/*": {"core"},
    "tools": {"tools", "graph", "state", "core", "backends", "backends/*"},
    "tests": {"tests", "tools", "graph", "state", "core", "backends", "backends/*"},
}

# The rooms of graph/, each of which may include itself and those in front of it. Nothing lies beside them.
ROOMS = ("model", "placement", "run", "continuity", "session")

# Third-party headers by the folders (or the one file) that own them. A header that is neither here nor of the system is refused:
# whoever brings in a library decides here who may see it.
OWNERS = {
    "fmt/": ("",),
    "nlohmann/": ("core/io/", "core/text/", "tools/", "tests/"),
    "CLI/": ("tools/",),
    "pcre2.h": ("core/text/",),
    "xxhash.h": ("core/", "state/", "graph/", "tests/", "backends/cpu/kernels/digest.cpp"),
    "tbb/": ("core/threads.cpp",),
    "oneapi/": ("core/threads.cpp",),
    "Eigen/": ("backends/reference/", "tests/"),
    "gtest/": ("tests/",),
    "gmock/": ("tests/",),
    "benchmark/": ("tests/", "tools/"),
    "mpi.h": ("tools/", "tests/"),
    "immintrin.h": ("backends/cpu/", "tests/kernels/"),
}
SYSTEM = re.compile(r"[a-z_0-9]+$|(sys|linux)/[a-z_0-9]+\.h$|"
                    r"(unistd|fcntl|poll|signal|sched|pthread|dlfcn|termios|time|spawn|cpuid|dirent|libgen)\.h$")


def layer(path):
    parts = path.parts
    return f"backends/{parts[1]}" if parts[0] == "backends" and len(parts) > 2 else parts[0]


def may_include(source, target):
    """Whether a file of layer `source` may include one of layer `target`."""
    kind = lambda name: "backends/*" if name.startswith("backends/") else name
    return source == target or kind(target) in ARROWS[kind(source)]


def room_error(path, target):
    """What is wrong with an include inside graph/, or None."""
    rooms = [p.parts[1] for p in (path, target)]
    for p, room in zip((path, target), rooms):
        if room not in ROOMS:
            return f"{p}: lies in none of graph's rooms: {', '.join(ROOMS)}"
    if ROOMS.index(rooms[1]) > ROOMS.index(rooms[0]):
        return f"{path}: graph/{rooms[0]} may not include graph/{rooms[1]}, which is above it"
    return None


def resolve(root, path, name):
    """The file that #include "name" in `path` means, relative to the root, or None."""
    for candidate in (pathlib.Path(name), path.parent / name):
        full = (root / candidate).resolve()
        if full.is_file() and full.is_relative_to(root.resolve()):
            return full.relative_to(root.resolve())
    return None


def is_allowed_cuda(path):
    return path.as_posix().startswith(CUDA_FOLDERS)


def check_arrow(root, path, name):
    target = resolve(root, path, name)
    if target is None:
        return f'{path}: "{name}" is no file of this tree (third-party headers are included with <>)'
    if target.parts[0] not in ARROWS or not may_include(layer(path), layer(target)):
        return f'{path}: {layer(path)} may not include {layer(target)} ("{name}")'
    return room_error(path, target) if layer(path) == layer(target) == "graph" else None


def check_owner(path, name):
    """For angle brackets that are not CUDA's."""
    for prefix, folders in OWNERS.items():
        if name.startswith(prefix):
            if path.as_posix().startswith(folders):
                return None
            return f"{path}: <{name}> belongs to {', '.join(folders)}"
    if SYSTEM.match(name):
        return None
    return f"{path}: <{name}> has no owner in tests/house/check_includes.py"


def violations(root):
    """Lists by rule."""
    found = {"arrows": [], "owners": [], "cuda": []}
    for path in house.files(root, house.CODE):
        text = (root / path).read_text()
        if path.suffix in (".cu", ".cuh") and not is_allowed_cuda(path):
            found["cuda"].append(f"{path}: CUDA code outside {' and '.join(CUDA_FOLDERS)}")
        if CUDA_CONDITION.search(text) and path.as_posix() != "backends/builtin.cpp" and not is_allowed_cuda(path):
            found["cuda"].append(f"{path}: a condition on TANDEM_HAVE_CUDA outside backends/builtin.cpp")
        for bracket, name in INCLUDE.findall(text):
            if CUDA_HEADER.search(name) and name != CUDA_FACE:
                if not is_allowed_cuda(path):
                    found["cuda"].append(f"{path}: includes {name} outside {' and '.join(CUDA_FOLDERS)}")
            elif bracket == "<":
                found["owners"].append(check_owner(path, name))
            else:
                found["arrows"].append(check_arrow(root, path, name))
    return {rule: [v for v in list_ if v] for rule, list_ in found.items()}


PLANTED = {
    "core/error.hpp": "#include <string>\n",
    "core/bad.cpp": '#include "state/pool.hpp"\n',
    "state/pool.hpp": '#include "core/error.hpp"\n#include <sys/mman.h>\n',
    "state/bad.cpp": '  #  include "backends/cpu/cpu.hpp"\n#include <Eigen/Core>\n#ifdef TANDEM_HAVE_CUDA\n#endif\n',
    "graph/placement/plan.cpp": '#include "state/pool.hpp"\n#include "core/error.hpp"\n// #include "tools/x.hpp"\n',
    "graph/run/step.hpp": '#include "graph/placement/plan.cpp"\n',
    "graph/placement/bad.cpp": '#include "graph/run/step.hpp"\n',
    "graph/lost.cpp": '#include "graph/run/step.hpp"\n',
    "graph/bad.cpp": '#include "backends/builtin.hpp"\n#include <boost/any.hpp>\n',
    "backends/builtin.hpp": '#include "core/error.hpp"\n',
    "backends/builtin.cpp": '#include "backends/cpu/cpu.hpp"\n#if TANDEM_HAVE_CUDA\n'
                            '#include "backends/cuda/cuda_backend.hpp"\n#endif\n',
    "backends/cuda/cuda_backend.hpp": '#include "core/error.hpp"\n',
    "state/face.cpp": '#include "backends/cuda/cuda_backend.hpp"\n',
    "backends/cpu/cpu.hpp": '#include "core/error.hpp"\n#include "here.hpp"\n',
    "backends/cpu/here.hpp": "",
    "backends/cpu/bad.cpp": '#include "../cuda/x.cuh"\n#include "backends/reference/r.hpp"\n#include "graph/gone.hpp"\n',
    "backends/reference/r.hpp": "#include <Eigen/Core>\n",
    "backends/cuda/x.cuh": "#include <cuda_runtime.h>\n",
    "backends/cuda/x.cu": '#include "backends/cuda/x.cuh"\n#include <mma.h>\n',
    "core/threads.cpp": "#include <tbb/info.h>\n#include <cuda.h>\n",
    "tools/run.cpp": '#include "graph/placement/plan.cpp"\n#include "backends/builtin.hpp"\n#include <CLI/CLI.hpp>\n',
}


def self_test(report):
    with house.planted(PLANTED) as root:
        found = violations(root)
    report.catches("arrows", found["arrows"], "core may not include state", "state may not include backends/cpu", "state may not include backends/cuda",
                   "graph/placement may not include graph/run", "graph/lost.cpp: lies in none", "graph may not include backends", "backends/cpu may not include backends/reference", "graph/gone.hpp")
    report.catches("owners", found["owners"], "state/bad.cpp: <Eigen/Core>", "<boost/any.hpp> has no owner")
    report.catches("CUDA", found["cuda"], "state/bad.cpp: a condition", "../cuda/x.cuh", "core/threads.cpp: includes cuda.h")


def main():
    with house.Report() as report:
        self_test(report)
        found = violations(pathlib.Path(sys.argv[1]))
        report.check("includes follow graph -> state -> core <- backends, and the rooms of graph", found["arrows"])
        report.check("third-party headers stay with their owners", found["owners"])
        report.check("CUDA stays in backends/cuda", found["cuda"])


if __name__ == "__main__":
    main()
