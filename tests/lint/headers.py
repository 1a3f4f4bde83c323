#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each public header compiles alone, as C11 and as C++17. usage: headers.py INCLUDES HEADER...

INCLUDES are folders, separated by colons. Compilers that are not there are skipped.
"""
import pathlib
import shutil
import subprocess
import sys

from lint import Lint

COMPILERS = [("gcc", "c", "c11"), ("clang", "c", "c11"), ("g++", "c++", "c++17"), ("clang++", "c++", "c++17")]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def compile_alone(compiler, language, standard, includes, name):
    command = [compiler, "-x", language, f"-std={standard}", *WARNINGS, "-fsyntax-only", "-"]
    command += [f"-I{folder}" for folder in includes]
    # Twice: the guard is part of what is looked at.
    source = f"#include <sluice/{name}>\n#include <sluice/{name}>\nint main(void) {{ return 0; }}\n"
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    return [done.stderr.strip() or "failed"] if done.returncode else []


def main():
    includes = sys.argv[1].split(":")
    lint = Lint()
    for header in sys.argv[2:]:
        name = pathlib.Path(header).name
        for compiler, language, standard in COMPILERS:
            title = f"{name} alone by {compiler} -std={standard}"
            if shutil.which(compiler):
                lint.check(title, compile_alone(compiler, language, standard, includes, name))
            else:
                lint.check(title, [], skip=f"no {compiler} here")
    lint.finish()


main()
