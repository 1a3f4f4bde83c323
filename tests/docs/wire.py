#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/wire.md agrees with layout.h. usage: wire.py ROOT BUILD CC

Every struct of the wire has a table; its rows cover it without a gap; each offset, size and type is what the
compiler says. Every constant has the value that the page gives it.
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
from lint import Lint

SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "i32": 4, "i64": 8, "char": 1}


def rows(lines):
    """The cells of a table that begins at lines[0]."""
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables(text, first):
    """(last heading, line number, rows) of each table whose first column has this title."""
    heading, lines = "", text.splitlines()
    for at, line in enumerate(lines):
        if line.startswith("#"):
            heading = line.strip("# ")
        if line.startswith(f"| {first} |"):
            yield heading, at + 1, list(rows(lines[at + 2:]))


def check_struct(name, body, asserts):
    problems, at = [], 0
    for offset, size, kind, field, *_ in body:
        offset, size, field = int(offset, 0), int(size), field.strip("`")
        if offset != at:
            problems.append(f"{name}.{field}: the row before ends at {at:#x}, this one begins at {offset:#x}")
        at = offset + size
        base, _, count = kind.partition("[")
        if base in SIZES and SIZES[base] * int(count.rstrip("]") or 1 if count else 1) != size:
            problems.append(f"{name}.{field}: {kind} is not {size} bytes")
        asserts.append((f"offsetof(struct {name}, {field}) == {offset}", f"{name}.{field} is not at {offset:#x}"))
        asserts.append((f"sizeof(((struct {name} *)0)->{field}) == {size}", f"{name}.{field} is not {size} bytes"))
    return problems, at


def compile_asserts(root, build, compiler, asserts):
    source = '#include "native/wire/layout.h"\n#include "sluice/sluice.h"\n'
    source += "".join(f'_Static_assert({what}, "{why}");\n' for what, why in asserts)
    result = subprocess.run(
        [*compiler.split(), "-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", f"-I{root}/include", f"-I{build}/include",
         f"-I{root}/src", "-x", "c", "-"], input=source, text=True, stderr=subprocess.PIPE)
    if result.returncode == 0:
        return []
    return re.findall(r'static assertion failed: "(.*?)"', result.stderr) or \
        re.findall(r"error: (.*)", result.stderr) or [result.stderr]


def main():
    root, build, compiler = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    text = (root / "docs/wire.md").read_text()
    layout = (root / "src/native/wire/layout.h").read_text()
    lint = Lint()

    shown = {}
    for heading, number, body in tables(text, "offset"):
        name = heading.removeprefix("struct ")
        asserts = []
        problems, end = check_struct(name, body, asserts)
        # A record may be followed by padding; every other struct ends with its last row.
        asserts.append((f"sizeof(struct {name}) == {end}", f"{name} does not end at {end:#x}"))
        problems += compile_asserts(root, build, compiler, asserts)
        lint.check(f"struct {name}, line {number}", problems)
        shown[name] = True
    wanted = set(re.findall(r"^struct (sl_\w+) \{", layout, re.M)) | {"sl_record", "sl_geometry"}
    lint.check("every struct has its table", sorted(wanted - shown.keys()))

    asserts = [(f"{name.strip('`')} == {value}ULL", f"{name} is not {value}")
               for _, _, body in tables(text, "constant") for name, value, *_ in body]
    lint.check(f"{len(asserts)} constants", compile_asserts(root, build, compiler, asserts))
    named = {re.match(r"\w+", what)[0] for what, _ in asserts}
    lint.check("every kind of message has its number", sorted(set(re.findall(r"\bSL_MSG_\w+", layout)) - named))
    lint.finish()


main()
