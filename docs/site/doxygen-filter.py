#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A header, with its comments in the form that Doxygen knows. usage: doxygen-filter.py HEADER"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests/lint"))
import api

LABEL = re.compile(r"(?<=[ \n])(Owns|Thread|Blocks|Returns): ")
# A comment, and the declarations that follow it without an empty line and share it.
GROUP = re.compile(r"^/\*(?! SPDX)((?:(?!\*/).)*)\*/\n((?:SLUICE_API\b[^;]*;\n)+)", re.M | re.S)


def linked(folder):
    """Names that become links where a comment has them: functions and results."""
    headers = [path.read_text() for path in folder.glob("*.h")]
    names = {name for text in headers for name, _ in api.functions(text)}
    return names | {f"SLUICE_{name}" for text in headers for name in re.findall(r"^    X\((\w+), -?\d+,", text, re.M)}


def labels(text):
    return LABEL.sub(r"\n * @par \1\n * ", text)


def share(group):
    comment = "/**" + labels(group[1]) + "*/\n"
    declarations = re.findall(r"SLUICE_API\b[^;]*;\n", group[2])
    return "\n".join(comment + declaration for declaration in declarations)


def code(text):
    """Lines that stand deeper than the others are shown as they are."""
    return re.sub(r"((?:^ \*  {4,}\S.*\n)+)", r" *\n\1 *\n", text, flags=re.M)


def main():
    header = pathlib.Path(sys.argv[1])
    text = header.read_text()
    names = linked(header.parent)
    text = re.sub(r"\A/\* SPDX[^\n]*\n", "/** @file\n", text)
    text = GROUP.sub(share, code(text))
    text = re.sub(r"^(\s*)/\*(?!\*)", r"\1/**", text, flags=re.M)
    text = re.sub(r"(\S[ \t]*)/\*(?!\*)", r"\1/**<", text)
    text = api.COMMENT.sub(lambda comment: re.sub(r"\w+", lambda word: f"#{word[0]}" if word[0] in names else word[0],
                                                  comment[0]), text)
    sys.stdout.write(text)


main()
