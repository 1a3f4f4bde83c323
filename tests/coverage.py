#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints how many lines of src/ tests ran, folder by folder. usage: coverage.py BUILD [--lines FOLDER]

--lines names the lines of that folder that no test ran.
"""
import json
import os
import pathlib
import subprocess
import sys


def counts(build):
    """{file: {line: was it run}} for the library's sources."""
    seen = {}
    for note in sorted(p.resolve() for p in build.glob("src/*.p/*.gcno")):
        done = subprocess.run(["gcov", "--json-format", "--stdout", str(note)], cwd=build,
                              capture_output=True, text=True)
        for document in done.stdout.splitlines():
            for file in json.loads(document)["files"]:
                lines = seen.setdefault(os.path.normpath(build / file["file"]), {})
                for line in file["lines"]:
                    number = line["line_number"]
                    lines[number] = lines.get(number, False) or line["count"] > 0
    return seen


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    source = pathlib.Path(__file__).resolve().parent.parent / "src"
    folders = {}
    missed = []
    for name, lines in counts(build).items():
        path = pathlib.Path(name)
        if source not in path.parents:
            continue
        folder = str(path.parent.relative_to(source.parent))
        run, all_lines = folders.get(folder, (0, 0))
        folders[folder] = (run + sum(lines.values()), all_lines + len(lines))
        if sys.argv[2:3] == ["--lines"] and folder == sys.argv[3]:
            missed += [f"{path.relative_to(source.parent)}:{n}" for n, ran in sorted(lines.items()) if not ran]
    print("lines run by tests")
    total = (sum(r for r, _ in folders.values()), sum(a for _, a in folders.values()))
    for folder, (run, all_lines) in [*sorted(folders.items()), ("all", total)]:
        print(f"  {folder:<20} {run:>6} of {all_lines:>6}  {100 * run / max(all_lines, 1):5.1f} %")
    print(*missed, sep="\n", end="\n" if missed else "")
    if not folders:
        sys.exit("coverage: no counts in " + str(build))


main()
