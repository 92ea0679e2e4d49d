#!/usr/bin/env python3
"""The closing line of tools/test must not call a crash, a timeout or a leak a success: tools/lib/count_results.py on made-up logs.

usage: check_counting.py SOURCE_ROOT
"""

import json
import pathlib
import subprocess
import sys

import house

ONE_CASE = '<testsuite name="tandem.{0}.Suite"><testcase name="a"/>{1}</testsuite>'
SKIPPED = '<testcase name="b"><skipped message="no GPU"/></testcase>'
FAILED = '<testcase name="b"><failure message="1 != 2"/></testcase>'
ERROR = '<testcase name="b"><error/></testcase>'

# name, meson's verdict, suites in the XML, what must be counted: passed, failed, skipped
CASES = [
    ("passes", "OK", ONE_CASE.format("passes", ""), (1, 0, 0)),
    ("skips one case", "OK", ONE_CASE.format("skips one case", SKIPPED), (1, 0, 1)),
    ("skips another", "OK", ONE_CASE.format("skips another", SKIPPED), (1, 0, 1)),
    ("fails one case", "FAIL", ONE_CASE.format("fails one case", FAILED), (1, 1, 0)),
    ("has an error", "ERROR", ONE_CASE.format("has an error", ERROR), (1, 1, 0)),
    ("leaks after its cases", "FAIL", ONE_CASE.format("leaks after its cases", ""), (1, 1, 0)),
    ("crashes", "FAIL", "", (0, 1, 0)),
    ("is too slow", "TIMEOUT", '<testsuite name="tandem"><testcase name="is too slow"/></testsuite>', (0, 1, 0)),
    ("is skipped", "SKIP", '<testsuite name="tandem"><testcase name="is skipped"><skipped/></testcase></testsuite>', (0, 0, 1)),
    ("has no cases", "OK", '<testsuite name="tandem"><testcase name="has no cases"/></testsuite>', (1, 0, 0)),
    ("is called", "OK", ONE_CASE.format("is called", "") + ONE_CASE.format("is called like another", FAILED), (1, 0, 0)),
]
SKIPS = {"no GPU": 2, "SKIP, exit code 0": 1}


def count(script, cases):
    log = "".join(json.dumps({"name": n, "result": r, "returncode": 0}) + "\n" for n, r, _, _ in cases)
    xml = "<testsuites>" + "".join(x for _, _, x, _ in cases) + "</testsuites>"
    with house.planted({"meson-logs/testlog.json": log, "meson-logs/testlog.junit.xml": xml}) as build:
        answer = subprocess.run([sys.executable, script, build], capture_output=True, text=True, check=True)
    return tuple(int(n) for n in answer.stdout.split()), answer.stderr.splitlines()


def main():
    script = pathlib.Path(sys.argv[1], "tools/lib/count_results.py")
    with house.Report() as report:
        for case in CASES:
            found, _ = count(script, [case])
            report.check(f"a program that {case[0]}", [] if found == case[3] else [f"{found} instead of {case[3]}"])
        total = tuple(sum(column) for column in zip(*(case[3] for case in CASES)))
        found, told = count(script, CASES)
        report.check("all together", [] if found == total else [f"{found} instead of {total}"])
        report.check("failed tests by name", [line for line in told if "skipped" not in line and "failed: " not in line])
        skips = [line.strip() for line in told if "skipped" in line]
        expected = [f"{skipped} skipped: {reason}" for reason, skipped in SKIPS.items()]
        report.check("skipped tests by reason", [] if skips == expected else [f"{skips} instead of {expected}"])


if __name__ == "__main__":
    main()
