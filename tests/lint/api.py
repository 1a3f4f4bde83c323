# SPDX-License-Identifier: MIT
"""What the public headers declare."""
import re

COMMENT = re.compile(r"/\*.*?\*/", re.S)
DECLARATION = re.compile(r"\bSLUICE_API\b[^;{]*?\b(\w+)\s*\(", re.S)


def blank(text):
    """Same lines, no text."""
    return re.sub(r"[^\n]", " ", text)


def functions(text):
    """(name, line) of each exported function, in order. The macro's own definition is none."""
    text = COMMENT.sub(lambda m: blank(m[0]), text)
    text = re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", lambda m: blank(m[0]), text, flags=re.M)
    return [(m[1], text.count("\n", 0, m.start()) + 1) for m in DECLARATION.finditer(text)]
