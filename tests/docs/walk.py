#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The walks of docs/architecture.md name functions that are defined where they say. usage: walk.py ROOT"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
from lint import Lint

ROW = re.compile(r"^\| [^|]+ \| `(\w+)` \| `([\w/.]+)` \|$")


def is_defined(name, path):
    """A function's definition begins a line and is no declaration."""
    return path.exists() and re.search(rf"^[a-z][^;={{}}]*\b{name}\([^;{{]*\)\n?\s*{{", path.read_text(), re.M)


def main():
    root = pathlib.Path(sys.argv[1])
    rows = [ROW.match(line) for line in (root / "docs/architecture.md").read_text().splitlines()]
    steps = [(row[1], row[2]) for row in rows if row]
    lint = Lint()
    lint.check("each function of a walk is defined in its file",
               [f"{name} is not in {path}" for name, path in steps if not is_defined(name, root / path)])
    lint.check("the walks have their steps", [] if len(steps) >= 30 else [f"{len(steps)} steps found"])
    lint.finish()


main()
