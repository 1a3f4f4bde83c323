#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each exported function says what it does, what is whose, which threads may call it, whether it blocks, and what it
returns; each time says its unit. usage: comments.py HEADER...

Declarations that follow one another without a blank line share the comment above the first of them.
"""
import pathlib
import re
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


def lacks(comment, declaration):
    """What a function's comment does not say and should."""
    words = re.sub(r"^\s*/?\*+/?", "", comment, flags=re.M)
    what = re.split(r"\b(?:Owns|Thread|Blocks|Returns):", words)[0].strip()
    result, name, parameters = re.match(r"SLUICE_API\s+(.*?)(\w+)\s*\((.*)\)", declaration, re.S).groups()
    given = re.search(r"_(open|create|wrap|pin)$", name) and not name.startswith("sluice_array_")
    return [missing for missing, wanted in [
        ("what it does", not what),
        ("Thread:", "Thread:" not in comment),
        ("Owns:", given and "Owns:" not in comment),
        ("Blocks:", "timeout_ns" in parameters and "Blocks:" not in comment),
        ("Returns:", result.strip() == "int" and not re.search(r"\bReturns\b|\bversion\b", comment)),
    ] if wanted]


def times(text):
    """Lines with an int64_t whose name does not end in its unit; shapes and strides are no times."""
    plain = api.COMMENT.sub(lambda m: api.blank(m[0]), text)
    return [plain.count("\n", 0, m.start()) + 1 for m in re.finditer(r"\bint64_t \*?(\w+)", plain)
            if not m[1].endswith(("_ns", "shape", "strides"))]


def main():
    lint = Lint()
    for header in sys.argv[1:]:
        path = pathlib.Path(header)
        text = path.read_text()
        lines = text.splitlines()
        problems = []
        for name, number in api.functions(text):
            declaration = re.match(r"[^;{]*", "\n".join(lines[number - 1:]))[0]
            problems += [f"{path.name}:{number}: the comment of {name} does not say: {missing}"
                         for missing in lacks(comment_above(lines, number), declaration)]
        problems += [f"{path.name}:{number}: a time without its unit" for number in times(text)]
        lint.check(f"comments in {path.name}", problems)
    lint.finish()


main()
