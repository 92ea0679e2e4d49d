#!/usr/bin/env python3
"""Counts the test results of one Meson build folder: `count_results.py BUILD` prints "PASSED FAILED SKIPPED", on
stderr the name of each failed test, and for each reason to skip how many tests were skipped for it.

Single cases come from meson-logs/testlog.junit.xml. The verdict on each program comes from meson-logs/testlog.json: a program that
crashed, timed out, or leaked after its last case shows no failed case in the XML and still counts as a failure.
"""

import collections
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

GOOD = {"OK", "EXPECTEDFAIL"}


def case_verdict(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("status") == "notrun":
        return "skipped"
    return "passed"


def case_reason(case, verdict):
    element = case.find("skipped" if verdict == "skipped" else "failure")
    text = "" if element is None else element.get("message") or element.text or ""
    text = text or case.findtext("system-out") or ""
    lines = text.strip().splitlines()
    # GoogleTest puts the place on the first line and the message below it.
    return lines[-1] if lines and verdict == "skipped" else " | ".join(lines[:2])


def program_verdict(result):
    if result in GOOD:
        return "passed"
    return "skipped" if result == "SKIP" else "failed"


def results(build):
    """(verdict, name, reason) of every case, and of every program that has no cases or fails without a failed case."""
    logs = build / "meson-logs"
    records = [json.loads(line) for line in (logs / "testlog.json").read_text().splitlines() if line]
    suites = []
    if (logs / "testlog.junit.xml").exists():
        suites = ElementTree.parse(logs / "testlog.junit.xml").getroot().findall("testsuite")
    for record in records:
        name, verdict = record["name"], program_verdict(record["result"])
        # Suites are called PROJECT.PROGRAM for TAP and PROJECT.PROGRAM.SUITE for GoogleTest; PROJECT has no dots.
        own = [s for s in suites if (s.get("name").partition(".")[2] + ".").startswith(name + ".")]
        cases = [(case_verdict(c), c) for s in own for c in s.findall("testcase")]
        for case_result, case in cases:
            # GoogleTest's class is the suite within the program; TAP has none, and Meson repeats the program's name there.
            group = "" if case.get("classname", "").endswith(name) else case.get("classname", "") + "."
            yield case_result, f"{name}: {group}{case.get('name')}", case_reason(case, case_result)
        if not cases or (verdict == "failed" and all(v != "failed" for v, _ in cases)):
            yield verdict, name, f"{record['result']}, exit code {record['returncode']}"


def main():
    count = {"passed": 0, "failed": 0, "skipped": 0}
    skipped = collections.Counter()
    for verdict, name, reason in results(pathlib.Path(sys.argv[1])):
        count[verdict] += 1
        if verdict == "skipped":
            skipped[reason or "no reason given"] += 1
        elif verdict == "failed":
            print(f"  {verdict}: {name}" + (f" ({reason})" if reason else ""), file=sys.stderr)
    for reason, number in skipped.most_common():
        print(f"  {number} skipped: {reason}", file=sys.stderr)
    print(count["passed"], count["failed"], count["skipped"])


if __name__ == "__main__":
    main()
