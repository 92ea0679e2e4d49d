#!/usr/bin/env python3
"""Formatting, length of files, blanks, and promises without a reason.

usage: check_style.py SOURCE_ROOT
"""

import collections
import pathlib
import re
import shutil
import subprocess
import sys

import house

MAX_LINES = 500
# Later versions format some lines in another way; one must be the judge.
CLANG_FORMAT = 14
TEXT = (*house.CODE, ".py", ".sh", ".md", "meson.build")
SCRIPT_FOLDERS = ("tools", "tests", ".ci")
PROMISE = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b(?!\([^)]+\))")


def scripts(root):
    """Shell scripts, which have no suffix when they are commands."""
    found = []
    for path in house.files(root, [""], SCRIPT_FOLDERS):
        with open(root / path, "rb") as file:
            first = file.readline(40)
        if path.suffix == ".sh" or (not path.suffix and re.match(rb"#!.*\b(ba)?sh\b", first)):
            found.append(path)
    return found


def texts(root):
    return sorted({*house.files(root, TEXT), *scripts(root), *(p.relative_to(root) for p in root.glob("*.md")),
                   *(p.relative_to(root) for p in root.glob("meson*"))})


def long_files(root):
    for path in texts(root):
        lines = len((root / path).read_text().splitlines())
        if path.suffix != ".md" and lines > MAX_LINES:
            yield f"{path}: {lines} lines; over {MAX_LINES} a file wants splitting"


def blanks(root):
    for path in texts(root):
        text = (root / path).read_bytes().decode()
        for number, line in enumerate(text.split("\n"), 1):
            if "\t" in line or line != line.rstrip():
                yield f"{path}:{number}: a tab, or blanks at the end"
        if text and not text.endswith("\n"):
            yield f"{path}: the last line does not end"


def promises(root):
    for path in texts(root):
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            if match := PROMISE.search(line):
                yield f"{path}:{number}: {match[1]} without a reason in parentheses"


def clang_format():
    """(command, None), or (None, why there is none)."""
    for name in (f"clang-format-{CLANG_FORMAT}", "clang-format"):
        if path := shutil.which(name):
            version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            if f"version {CLANG_FORMAT}." in version:
                return path, None
    return None, f"there is no clang-format {CLANG_FORMAT} here"


def badly_formatted(root, command):
    paths = [str(p) for p in house.files(root, house.CODE)]
    if not paths:
        return []
    command_line = [command, "--dry-run", "-Werror", "--style=file", *paths]
    answer = subprocess.run(command_line, cwd=root, capture_output=True, text=True, check=False)
    places = collections.Counter(line.split(":")[0] for line in answer.stderr.splitlines() if ": error:" in line)
    if answer.returncode and not places:
        return [answer.stderr]
    return [f"{path}: {count} places (mend with {pathlib.Path(command).name} -i)" for path, count in places.items()]


def shellcheck_says(root):
    command = ["shellcheck", "--external-sources", "--source-path=SCRIPTDIR", "--format=gcc", *map(str, scripts(root))]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return (answer.stdout + answer.stderr).splitlines()


def self_test(report, formatter):
    contents = {".clang-format": "BasedOnStyle: Google\n",
                "core/good.cpp": "int f() { return 0; }  // TO" "DO(the reason): later\n",
                "core/bad.cpp": "int  g ();\n// TO" "DO: later\n//\tx\n",
                "tools/long": "#!/usr/bin/env bash\n" + "echo\n" * MAX_LINES,
                "tools/wrong.sh": "#!/usr/bin/env bash\necho $1\necho end "}
    with house.planted(contents) as root:
        report.catches("a long file", long_files(root), "tools/long: 501 lines")
        report.catches("blanks", blanks(root), "core/bad.cpp:3", "tools/wrong.sh:3", "tools/wrong.sh: the last line")
        report.catches("a promise without a reason", promises(root), "core/bad.cpp:2")
        if formatter:
            report.catches("bad formatting", badly_formatted(root, formatter), "core/bad.cpp: 2 places")
        if shutil.which("shellcheck"):
            report.catches("a shell fault", shellcheck_says(root), "SC2086")


def main():
    root = pathlib.Path(sys.argv[1])
    formatter, no_formatter = clang_format()
    with house.Report() as report:
        self_test(report, formatter)
        report.check(f"no file is longer than {MAX_LINES} lines", long_files(root))
        report.check("no tabs, no blanks at the end of a line", blanks(root))
        report.check("no promise without a reason", promises(root))
        if formatter:
            report.check("clang-format would change nothing", badly_formatted(root, formatter))
        else:
            report.skip("clang-format would change nothing", no_formatter)
        if shutil.which("shellcheck"):
            report.check("shellcheck has nothing to say", shellcheck_says(root))
        else:
            report.skip("shellcheck has nothing to say", "there is no shellcheck here")


if __name__ == "__main__":
    main()
