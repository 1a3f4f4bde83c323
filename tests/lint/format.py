#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""clang-format, where it is installed, would change nothing in any C file. usage: format.py ROOT

Each release of clang-format breaks some lines in its own way, so another one than MAJOR is not asked.
"""
import pathlib
import re
import shutil
import subprocess
import sys

from lint import Lint

MAJOR = 14  # Debian 12 has it
WARNING = re.compile(r"^(.*?:\d+):\d+: error: code should be clang-formatted")


def c_files(root):
    return sorted(path for path in [*root.glob("*/**/*.[ch]"), *root.glob("*/**/*.[ch]pp")] if not re.match(r"build|\.", path.relative_to(root).parts[0]))


def why_not():
    """Why clang-format cannot be asked here, or None."""
    if not shutil.which("clang-format"):
        return "clang-format is not installed"
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True).stdout
    found = re.search(r"version (\d+)", version)
    return None if found and int(found[1]) == MAJOR else f"{version.strip()} is not {MAJOR}"


def main():
    root = pathlib.Path(sys.argv[1])
    lint = Lint()
    skip, problems = why_not(), []
    if not skip:
        done = subprocess.run(["clang-format", "--dry-run", "--Werror", "--style=file", *c_files(root)], capture_output=True, text=True)
        places = {}
        for line in filter(None, map(WARNING.match, done.stderr.splitlines())):
            file, _, number = line[1].rpartition(":")
            places.setdefault(str(pathlib.Path(file).relative_to(root)), []).append(number)
        problems = [f"{file}: lines {', '.join(numbers[:8])}{' ...' if numbers[8:] else ''}" for file, numbers in places.items()]
        if done.returncode and not problems:
            problems = [done.stderr]
    lint.check("clang-format changes nothing", problems, skip=skip)
    lint.finish()


main()
