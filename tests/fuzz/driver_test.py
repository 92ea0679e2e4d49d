#!/usr/bin/env python3
"""That the driver finds a fault, keeps its input, and shows it again.

usage: driver_test.py PLANTED_FUZZ
"""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

from tap import Suite, require, require_equal, run  # noqa: E402

suite = Suite("fuzz driver")


def started(target, *arguments, folder):
    environment = {**os.environ, "TANDEM_FUZZ_SECONDS": "20"}
    return subprocess.run([target, *map(str, arguments)], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)


@suite.test("a fault ends the run, and its input is left")
def fault(target):
    with tempfile.TemporaryDirectory() as folder:
        first, second = (started(target, "--seed", 3, folder=folder) for _ in range(2))
        require_equal((first.returncode, second.returncode), (1, 1), f"exit codes\n{first}")
        require_equal(first.stdout, second.stdout, "what the same seed finds")
        left = list(pathlib.Path(folder).iterdir())
        require_equal([path.name.rpartition("-")[0] for path in left], ["crash-3"], "files")
        require(b"#" in left[0].read_bytes()[:4], f"the input of the fault is {left[0].read_bytes()!r}")
        again = started(target, left[0], folder=folder)
        require(again.returncode < 0, f"the input did not show the fault again\n{again}")


@suite.test("a file without a fault is told as accepted")
def harmless(target):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "input").write_text("harmless")
        result = started(target, "input", folder=folder)
        require_equal((result.returncode, result.stdout), (0, "input: accepted\n"), "exit code and output")


@suite.test("options that mean nothing are refused")
def options(target):
    for arguments in (["--seconds"], ["--seed", "x"], ["--sed", 1], ["absent"]):
        require_equal(started(target, *arguments, folder="/").returncode, 2, f"exit code of {arguments}")


if __name__ == "__main__":
    raise SystemExit(1 if run(suite.tests, str(pathlib.Path(sys.argv[1]).resolve())) else 0)
