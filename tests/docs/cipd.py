#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/cuda-link-wire.md names a test for each hazard of cuda-link's wire, and each of these tests is built. usage: cipd.py ROOT"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
from lint import Lint

COUNTS = {"hazard": 17, "case": 10}


def table(text, first):
    """The cells of the rows of the table whose first column has this title."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith(f"| {first} |")), len(lines))
    for line in lines[start + 2:]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def fault(root, name):
    """The error in the name of a test; None if there is none."""
    folder, _, rest = name.partition("/")
    stem, _, test = rest.partition(".")
    path = root / (f"python/tests/{stem}.py" if folder == "python" else f"tests/{folder}/{stem}.c")
    if not path.exists():
        return f"{name}: there is no {path.relative_to(root)}"
    if folder == "fuzz":
        built = (root / "tests/fuzz/meson.build").read_text()
        return None if not test and f"'{stem}'" in built else f"{name}: no such fuzzer is built"
    if folder == "python":
        return None if re.search(rf"^def {re.escape(test)}\(", path.read_text(), re.M) else f"{name}: no such test"
    if f"'{stem}.c'" not in (path.parent / "meson.build").read_text():
        return f"{name}: {path.name} is not built"
    return None if re.search(rf"^TEST(?:_TIMEOUT)?\({re.escape(test)}[,)]", path.read_text(), re.M) else f"{name}: no such test"


def main():
    root, lint = pathlib.Path(sys.argv[1]), Lint()
    text = (root / "docs/cuda-link-wire.md").read_text()
    for first, count in COUNTS.items():
        rows = list(table(text, first))
        numbers = [row[0] for row in rows]
        lint.check(f"there are {count} of {first}", [] if numbers == [str(n) for n in range(1, count + 1)] else [f"there are {numbers}"])
        for row in rows:
            names = re.findall(r"`([^`]+)`", row[-1])
            lint.check(f"{first} {row[0]} has tests", [each for each in (fault(root, name) for name in names) if each] if names else ["no test is named"])
    lint.finish()


main()
