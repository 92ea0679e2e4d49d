"""Tests as functions, reported in the Test Anything Protocol."""

import sys
import time
import traceback


class Failure(Exception):
    """A test found what it looks for; the text says what, on as many lines as it takes."""


class Skipped(Exception):
    """A test cannot run on this machine; the text says why."""


def require(condition, text):
    if not condition:
        raise Failure(text)


def require_equal(found, expected, what):
    require(found == expected, f"{what}: expected {shorten(expected)}, found {shorten(found)}")


def shorten(value, longest=600):
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"


class Suite:
    """The tests of one file. Each takes the program under test."""

    def __init__(self, subject):
        self.subject = subject
        self.tests = []

    def add(self, name, function):
        self.tests.append((f"{self.subject}: {name}", function))

    def test(self, name):
        """Decorates a test."""
        def decorate(function):
            self.add(name, function)
            return function
        return decorate


def run(tests, argument):
    """Runs (name, function) pairs and prints one result each. Returns the number of failures."""
    print(f"1..{len(tests)}", flush=True)
    failures = 0
    for number, (name, function) in enumerate(tests, 1):
        start = time.monotonic()
        result, suffix, diagnosis = "ok", "", ""
        try:
            function(argument)
        except Skipped as reason:
            suffix = f" # SKIP {reason}"
        except Failure as failure:
            result, diagnosis = "not ok", str(failure)
        except Exception:  # a test must not take the others with it
            result, diagnosis = "not ok", traceback.format_exc()
        failures += result != "ok"
        print(f"{result} {number} - {name}{suffix}")
        if diagnosis:
            diagnosis += f"\nafter {time.monotonic() - start:.1f} s"
        for line in diagnosis.splitlines():
            print(f"# {line}")
        sys.stdout.flush()
    return failures
