#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Man pages agree with the command and the headers. usage: man.py ROOT SLUICE"""
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
import api
from lint import Lint


def from_command(root, sluice):
    check = subprocess.run([sys.executable, root / "man/generate.py", "--check", sluice], text=True,
                           stderr=subprocess.PIPE)
    return [check.stderr] if check.returncode else []


def words(root, sluice):
    """Words of options and arguments that the pages do not have, as completion offers them."""
    problems = []
    for command, *before in [("top", "--sort"), ("bench",)]:
        offered = subprocess.run([sluice, "__complete", command, *before, ""], text=True, stdout=subprocess.PIPE).stdout
        shown = re.findall(r"\w+", " ".join(re.findall(r"^\.It Cm (.*)",
                                                       (root / f"man/sluice-{command}.1").read_text(), re.M)))
        problems += [f"{word} is not in sluice-{command}.1" for word in offered.split() if word not in shown]
        problems += [f"{word} is no word of {command}" for word in shown if word not in offered.split()]
    return problems


def mandoc(page):
    looked = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], text=True, stdout=subprocess.PIPE)
    return looked.stdout.splitlines()


def references(root, pages):
    """Names of our own pages that are referred to but not there."""
    there = {page.name for page in pages}
    return [f"{page.name}: {name}({number})" for page in pages
            for name, number in re.findall(r"^\.Xr (sluice[\w-]*) (\d)", page.read_text(), re.M)
            if f"{name}.{number}" not in there]


def functions(root):
    """Differences between the headers and the index of functions, header by header."""
    index, header = set(), None
    for line in (root / "man/sluice.3").read_text().splitlines():
        if line.startswith(".In "):
            header = line.removeprefix(".In ")
        elif line.startswith(".It Fn "):
            index.add((header, line.removeprefix(".It Fn ")))
    declared = {(f"sluice/{path.name}", name) for path in (root / "include/sluice").glob("*.h")
                for name, _ in api.functions(path.read_text())}
    return [f"{name} of {header} is not in sluice.3" for header, name in sorted(declared - index)] + \
        [f"{name} is in sluice.3, but not in {header}" for header, name in sorted(index - declared)]


def variables(root, pages):
    """Differences between the pages and what environment.md has for the library and the command."""
    text = (root / "docs/environment.md").read_text().partition("## Building")[0]
    listed = {name for cell in re.findall(r"^\| ([^|]*) \|", text, re.M) for name in re.findall(r"`(\w+)`", cell)}
    shown = {name for page in pages for line in re.findall(r"^\.It Ev (.*)", page.read_text(), re.M)
             for name in re.findall(r"\w+", line)}
    return [f"{name} is in no man page" for name in sorted(listed - shown)] + \
        [f"{name} is not in environment.md" for name in sorted(shown - listed)]


def exit_codes(root):
    here = re.findall(r"^\.It (\d)$", (root / "man/sluice.1").read_text(), re.M)
    there = re.findall(r"^\| (\d) \|", (root / "docs/command.md").read_text(), re.M)
    return [] if here == there else [f"{here} in sluice.1, {there} in command.md"]


def main():
    root, sluice = pathlib.Path(sys.argv[1]), sys.argv[2]
    pages = sorted((root / "man").glob("*.[0-9]"))
    lint = Lint()
    lint.check("options, examples and summaries are the command's own", from_command(root, sluice))
    lint.check("columns and rows", words(root, sluice))
    lint.check("every function is in sluice.3", functions(root))
    lint.check("environment variables", variables(root, pages))
    lint.check("exit codes", exit_codes(root))
    lint.check("references to other pages", references(root, pages))
    installed = set(re.findall(r"'([\w-]+\.\d)'", (root / "man/meson.build").read_text()))
    lint.check("every page is installed", sorted(installed ^ {page.name for page in pages}))
    for page in pages:
        if shutil.which("mandoc"):
            lint.check(f"mandoc takes {page.name}", mandoc(page))
        else:
            lint.check(f"mandoc takes {page.name}", [], skip="no mandoc here")
    lint.finish()


main()
