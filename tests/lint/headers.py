#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each public header compiles alone, as C11 and as C++17, and so do its macros where they are used, whatever a program asks its
compiler to warn of. usage: headers.py INCLUDES HEADER...

INCLUDES are folders, separated by colons. Compilers that are not there are skipped.
"""
import pathlib
import re
import shutil
import subprocess
import sys

from lint import Lint

COMPILERS = [("gcc", "c", "c11"), ("clang", "c", "c11"), ("g++", "c++", "c++17"), ("clang++", "c++", "c++17")]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wconversion", "-Wsign-conversion", "-Wcast-qual", "-Wcast-align",
            "-Wundef", "-Wdouble-promotion"]
OF_LANGUAGE = {"c": ["-Wstrict-prototypes", "-Wmissing-prototypes", "-Wold-style-definition"],
               "c++": ["-Wold-style-cast", "-Wzero-as-null-pointer-constant", "-Wnon-virtual-dtor"]}
VALUE = re.compile(r"^#define (SLUICE_[A-Z0-9_]+) +(?!__)\S", re.MULTILINE)  # no guards, no attributes, nothing with arguments


def uses(text):
    """Statements with each of the header's macros that are values."""
    for number, name in enumerate(sorted(set(VALUE.findall(text)))):
        if name.endswith("_INIT"):
            yield f"struct {name.removesuffix('_INIT').lower()} value{number} = {name}; (void)value{number};"
        else:
            yield f"(void)({name});"


def compile_alone(compiler, language, standard, includes, header):
    command = [compiler, "-x", language, f"-std={standard}", *WARNINGS, *OF_LANGUAGE[language], "-fsyntax-only", "-"]
    command += [f"-I{folder}" for folder in includes]
    include, body = f"#include <sluice/{header.name}>", "\n".join(uses(header.read_text()))
    # Twice: the guard is part of what is looked at.
    source = f"{include}\n{include}\nint main(void)\n{{\n{body}\nreturn 0;\n}}\n"
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    return [done.stderr.strip() or "failed"] if done.returncode else []


def main():
    includes = sys.argv[1].split(":")
    lint = Lint()
    for header in sys.argv[2:]:
        header = pathlib.Path(header)
        for compiler, language, standard in COMPILERS:
            title = f"{header.name} alone by {compiler} -std={standard}"
            if shutil.which(compiler):
                lint.check(title, compile_alone(compiler, language, standard, includes, header))
            else:
                lint.check(title, [], skip=f"no {compiler} here")
    lint.finish()


main()
