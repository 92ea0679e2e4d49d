"""What the house checks share: the list of sources, a report in the Test Anything Protocol, and planted trees for self-tests."""

import contextlib
import os
import pathlib
import sys
import tempfile

SOURCE_FOLDERS = ("core", "state", "graph", "backends", "tools", "tests")
CODE = (".hpp", ".cpp", ".h", ".cu", ".cuh")


def files(root, suffixes, folders=SOURCE_FOLDERS):
    """Paths relative to `root` of all files with these suffixes below the source folders, sorted."""
    found = []
    for folder in folders:
        for where, inner, names in os.walk(root / folder):
            # Somebody may keep a build folder inside; what is in there is not ours.
            inner[:] = [d for d in inner if not d.startswith((".", "__")) and not d.startswith("build")]
            found += [pathlib.Path(where, n).relative_to(root) for n in names if n.endswith(tuple(suffixes))]
    return sorted(found)


class Report:
    """Prints one line a result. Use as a context manager: the plan is printed at its end, and a failure gives exit code 1."""

    def __init__(self):
        self.results = 0
        self.failures = 0

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            print(f"1..{self.results}", flush=True)
            if self.failures:
                raise SystemExit(1)

    def check(self, name, violations):
        """One result: it holds when there are no violations."""
        violations = list(violations)
        self.results += 1
        self.failures += bool(violations)
        print(f"{'not ok' if violations else 'ok'} {self.results} - {name}")
        # Meson keeps what it parses to itself and shows stderr when a test fails.
        for violation in violations:
            print(violation, file=sys.stderr)

    def skip(self, name, reason):
        self.results += 1
        print(f"ok {self.results} - {name} # SKIP {reason}")

    def catches(self, name, violations, *expected):
        """Self-test: a planted fault must be the one thing found. Each text in `expected` must occur in one violation."""
        violations = [str(v) for v in violations]
        wrong = [f"planted, but not found: {e}" for e in expected if not any(e in v for v in violations)]
        if len(violations) != len(expected):
            wrong.append(f"{len(expected)} planted, {len(violations)} found: {violations}")
        self.check(f"self-test: {name}", wrong)


@contextlib.contextmanager
def planted(contents):
    """A temporary tree with these files: {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in contents.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        yield root
