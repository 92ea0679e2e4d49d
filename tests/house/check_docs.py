#!/usr/bin/env python3
"""Every folder of sources explains itself, and what a README points to exists.

usage: check_docs.py SOURCE_ROOT
"""

import os
import pathlib
import re
import sys

import house

NEED_README = (".", "core", "state", "graph", "backends", "backends/cpu", "backends/cpu/kernels", "backends/reference",
               "backends/cuda", "tools", "tools/models", "tests")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)[^)]*\)")
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:|//")
# A command of the tree: in a code block or between backticks, the first word of a line.
COMMAND = re.compile(r"(?:^\s*(?:\$\s+)?|`)((?:\./)?(?:tools|\.ci)/[A-Za-z0-9_./-]+)(?=[\s`]|$)", re.MULTILINE)


def readmes(root):
    own = [pathlib.Path("README.md")] if (root / "README.md").exists() else []
    return own + [p for p in house.files(root, ["README.md"]) if p.name == "README.md"]


def holds_sources(root, folder):
    return (root / folder).is_dir() and any(p.suffix in house.CODE or p.name == "meson.build" or p.is_dir()
                                            for p in (root / folder).iterdir())


def folders_without_readme(root):
    for folder in NEED_README:
        if holds_sources(root, folder) and not (root / folder / "README.md").exists():
            yield f"{folder}: there is no README.md"


def anchors(text):
    """The names that a page's headings can be linked by."""
    headings = re.findall(r"^#+\s+(.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in headings}


def broken_links(root):
    for path in readmes(root):
        text = (root / path).read_text()
        for target in LINK.findall(FENCE.sub("", text)):
            if EXTERNAL.match(target):
                continue
            name, _, anchor = target.partition("#")
            place = root / path.parent / name if name else root / path
            if not place.exists():
                yield f"{path}: {target} does not exist"
            elif anchor and place.suffix == ".md" and anchor not in anchors(place.read_text()):
                yield f"{path}: {target}: no such heading"


def commands(text):
    blocks = [match[0] for match in FENCE.finditer(text)]
    indented = re.findall(r"^    .*$", FENCE.sub("", text), re.MULTILINE)
    inline = re.findall(r"`[^`\n]+`", FENCE.sub("", text))
    return {name for part in blocks + indented + inline for name in COMMAND.findall(part)}


def missing_commands(root):
    for path in readmes(root):
        for name in sorted(commands((root / path).read_text())):
            place = root / name
            if not place.exists():
                yield f"{path}: {name} does not exist"
            elif place.is_file() and not place.suffix and not os.access(place, os.X_OK):
                yield f"{path}: {name} cannot be executed"


def self_test(report):
    contents = {"README.md": "# Tandem\n[core](core/README.md#what-is-it) [gone](core/gone.md) [x](#none) <https://a.b>\n"
                             "```\ntools/demo -n 3\n$ tools/gone --quick\n[no](link)\n```\n`tools/plain x`, tools/prose\n",
                "core/README.md": "## What is it?\n[up](../README.md)\n", "core/a.cpp": "", "state/a.cpp": "",
                "tools/demo": "", "tools/plain": "", "tools/README.md": "[d](demo)\n"}
    with house.planted(contents) as root:
        (root / "tools/demo").chmod(0o755)
        report.catches("a folder without README", folders_without_readme(root), "state: there is no README.md")
        report.catches("broken links", broken_links(root), "core/gone.md does not exist", "#none: no such heading")
        report.catches("missing commands", missing_commands(root), "tools/gone does not exist", "tools/plain cannot be executed")


def main():
    root = pathlib.Path(sys.argv[1])
    with house.Report() as report:
        self_test(report)
        report.check("every folder of sources has a README.md", folders_without_readme(root))
        report.check("links in README.md files resolve", broken_links(root))
        report.check("commands named in README.md files exist", missing_commands(root))


if __name__ == "__main__":
    main()
