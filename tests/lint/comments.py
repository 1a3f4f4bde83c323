#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each exported function says on which threads it may be called. usage: comments.py HEADER...

Declarations that follow one another without a blank line share the comment above the first of them.
"""
import pathlib
import sys

import api
from lint import Lint


def comment_above(lines, number):
    """The comment that ends just above line `number` (from 1), over declarations in between."""
    at = number - 2
    while at >= 0 and lines[at].strip() and not lines[at].rstrip().endswith("*/"):
        at -= 1
    if at < 0 or not lines[at].rstrip().endswith("*/"):
        return ""
    end = at
    while at >= 0 and "/*" not in lines[at]:
        at -= 1
    return "\n".join(lines[at:end + 1])


def main():
    lint = Lint()
    for header in sys.argv[1:]:
        path = pathlib.Path(header)
        text = path.read_text()
        lines = text.splitlines()
        problems = [f"{path.name}:{number}: the comment of {name} has no \"Thread:\""
                    for name, number in api.functions(text)
                    if "Thread:" not in comment_above(lines, number)]
        lint.check(f"threads in {path.name}", problems)
    lint.finish()


main()
