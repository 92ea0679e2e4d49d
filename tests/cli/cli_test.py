#!/usr/bin/env python3
"""Tests of the program from outside. All files here with a `suite` belong to it.

usage: cli_test.py [--only MODULE] PROGRAM [WORD...]   (only that file's tests; only tests whose name has one of the words)
       cli_test.py --named MODULE...                   (whether these are all the files; the others would not be run)
needs TANDEM_MODELS and TANDEM_TEST_DATA, the folders of the shipped models and of the test data
"""

import importlib
import pathlib
import re
import sys

import program
import tap

SUITE = re.compile(r"^suite = Suite\(", re.MULTILINE)


def modules():
    return sorted(path.stem for path in pathlib.Path(__file__).parent.glob("*.py") if SUITE.search(path.read_text()))


def all_are_named(names):
    tap.require_equal(sorted(names), modules(), "modules in tests/cli/meson.build")


def main():
    words = sys.argv[1:]
    if words[:1] == ["--named"]:
        raise SystemExit(1 if tap.run([("every module is in meson.build", all_are_named)], words[1:]) else 0)
    names = modules()
    if words[:1] == ["--only"]:
        names, words = [words[1]], words[2:]
    path, *words = words
    suites = [importlib.import_module(name).suite for name in names]
    tests = [test for suite in suites for test in suite.tests if not words or any(word in test[0] for word in words)]
    raise SystemExit(1 if tap.run(tests, program.Program(path)) else 0)


if __name__ == "__main__":
    main()
