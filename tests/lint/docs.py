#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""C code in the documents is code that is compiled. usage: docs.py ROOT

Each block marked `c` must stand in one of the files that the build compiles: an example, a tool, a test, a
public header. It is a program with a main(), or a part of the file that its first line names. Comments, indentation and line ends may differ. At an empty line, or one of dots (`...`), the
file may have more.
"""
import pathlib
import re
import sys

from lint import Lint

BLOCK = re.compile(r"^```c\b[^\n]*\n(.*?)^```", re.S | re.M)
GAP = re.compile(r"^[ \t]*(?:\.\.\.)?[ \t]*$", re.M)
NAMED = re.compile(r"/\* (\w[\w/.]*\.(?:[ch]|cu)) \*/\n")
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


def problem_of(block, sources):
    """What is wrong with a block, or None. `sources` has the text of each compiled file by its path."""
    named = NAMED.match(block)
    if not named and not re.search(r"^int main\(", block, re.M):
        return "it is no program, and its first line names no file: /* examples/... */"
    if named and named[1] not in sources:
        return f"{named[1]} is not compiled"
    if not any(stands_in(pieces(block), text) for path, text in sources.items() if not named or path == named[1]):
        return f"this code is not in {named[1] if named else 'a file that is compiled'}"
    return None


def main():
    root = pathlib.Path(sys.argv[1])
    sources = {str(p.relative_to(root)): plain(p.read_text()) for folder in ("examples", "tools", "tests", "include", "src")
               for p in sorted([*(root / folder).rglob("*.[ch]"), *(root / folder).rglob("*.cu")])}
    lint = Lint()
    for path in [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]:
        text = path.read_text()
        blocks = list(BLOCK.finditer(text))
        problems = []
        for block in blocks:
            problem = problem_of(block[1], sources)
            if problem:
                problems.append(f"{path.relative_to(root)}:{text.count(chr(10), 0, block.start()) + 1}: {problem}")
        if blocks:
            lint.check(f"code in {path.relative_to(root)}", problems)
    if not lint.count:
        lint.check("code in documents", [])
    lint.finish()


main()
