#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""C code in the documents is code that is compiled. usage: docs.py ROOT

Each block marked `c` must stand in one of the files that the build compiles: an example, a tool, a test, a
public header. Comments, indentation and line ends may differ. At an empty line, or one of dots (`...`), the
file may have more.
"""
import pathlib
import re
import sys

from lint import Lint

BLOCK = re.compile(r"^```c\b[^\n]*\n(.*?)^```", re.S | re.M)
GAP = re.compile(r"^[ \t]*(?:\.\.\.)?[ \t]*$", re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


def plain(text):
    """Without comments, indentation and line ends: lines are broken elsewhere where they stand deeper."""
    return " ".join(COMMENT.sub("", text).split())


def pieces(block):
    """The parts between gaps."""
    return [part for part in map(plain, GAP.split(block)) if part]


def stands_in(runs, source):
    at = 0
    for run in runs:
        at = source.find(run, at)
        if at < 0:
            return False
        at += len(run)
    return True


def main():
    root = pathlib.Path(sys.argv[1])
    sources = [plain(p.read_text()) for folder in ("examples", "tools", "tests", "include", "src")
               for p in sorted((root / folder).rglob("*.[ch]"))]
    lint = Lint()
    for path in [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]:
        text = path.read_text()
        blocks = list(BLOCK.finditer(text))
        problems = []
        for block in blocks:
            if not any(stands_in(pieces(block[1]), source) for source in sources):
                number = text.count("\n", 0, block.start()) + 1
                problems.append(f"{path.relative_to(root)}:{number}: this code is in no file that is compiled")
        if blocks:
            lint.check(f"code in {path.relative_to(root)}", problems)
    if not lint.count:
        lint.check("code in documents", [])
    lint.finish()


main()
