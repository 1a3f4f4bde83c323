# SPDX-License-Identifier: MIT
"""Docstrings of the Python package are made for help(); here they become reStructuredText."""
import inspect
import re

# "next(timeout=None, *, stream=None) -> Frame" over one line or more, then an empty line or the end.
SIGNATURE = re.compile(r"\A\w+(\((?:(?!\n\n).)*?\))(?: ->\s((?:(?!\n\n).)*?))?(?:\n\n|\Z)", re.S)
# A row of a table: a name, spaces, words.
ROW = re.compile(r"^(\w+(?:, \w+)*) {2,}(\S.*)")


def signature(app, what, name, obj, options, arguments, returns):
    """What stands first in the docstring."""
    found = SIGNATURE.match(inspect.getdoc(obj) or "")
    return tuple(part and " ".join(part.split()) for part in found.groups()) if found else None


def process(app, what, name, obj, options, lines):
    """Takes the signature away; rows of tables become definitions, indented lines blocks of code."""
    text = inspect.getdoc(obj) or "" if what in ("class", "function", "method") else "\n".join(lines)
    result, row = [], None
    for line in SIGNATURE.sub("", text).replace("*", r"\*").split("\n"):
        indented = line.startswith("  ")
        row = ROW.match(line) or (row if indented else None)
        if row and not indented:
            result += [f"``{row[1]}``", f"    {row[2]}"]
        elif row:
            result.append("    " + line.strip())
        elif indented and result and not result[-1]:
            result += ["::", "", line]
        else:
            result.append(line)
    lines[:] = result
