#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Subjects of new commits: `area: change`, at most 72 characters. usage: commits.py ROOT

An area is a folder, a file or a topic, such as `tests/lint`; there may be several, as in `core, copy: ...`. Older commits than
BASE are not checked. Without git, or in a clone that does not contain BASE, the test is skipped.
"""
import re
import subprocess
import sys

from lint import Lint

BASE = "48d17792dee6e067f4f2b1d7fe397fa7ba4e5a86"  # the last commit that is not checked
LONGEST = 72
AREA = r"[\w.*+-][\w./*+-]*"
SUBJECT = re.compile(rf"{AREA}(, {AREA})*: \S.*[^\s.]")
REVERT = re.compile(r'Revert "\S.*"')

GOOD = [
    "ring: reuse the oldest slot first",
    "core, copy: free the fence on time-out",
    ".ci, tests/lint: check the subjects of new commits",
    "README.md: a picture of the demo",
    "format: " + "x" * (LONGEST - len("format: ")),
    'Revert "ring: reuse the oldest slot first"',
]
BAD = [
    "reuse the oldest slot first",
    "Read once more: one saturating sum of times",
    "ring: ",
    "ring:reuse the oldest slot first",
    "ring : reuse the oldest slot first",
    "ring: reuse the oldest slot first.",
    "core,copy: free the fence on time-out",
    "core, : free the fence on time-out",
    "format: " + "x" * (LONGEST - len("format: ") + 1),
]


def problem(subject):
    if len(subject) > LONGEST:
        return f"{len(subject)} characters, more than {LONGEST}: {subject}"
    if not SUBJECT.fullmatch(subject) and not REVERT.fullmatch(subject):
        return f"not `area: change`: {subject}"
    return None


def git(root, *arguments):
    """What git prints, or None if it fails. The repository may belong to another user."""
    try:
        done = subprocess.run(["git", "-c", "safe.directory=*", "-C", root, *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def main():
    root = sys.argv[1]
    lint = Lint()
    lint.check("subjects: the rule accepts good ones", [each for each in map(problem, GOOD) if each])
    lint.check("subjects: the rule refuses bad ones", [each for each in BAD if not problem(each)])
    if git(root, "merge-base", "--is-ancestor", BASE, "HEAD") is None:
        lint.check("subjects of new commits", [], skip=f"no git history since {BASE} here")
    else:
        subjects = git(root, "log", "--no-merges", "--format=%h %s", f"{BASE}..HEAD").splitlines()
        found = [(name, problem(subject)) for name, _, subject in (line.partition(" ") for line in subjects)]
        lint.check("subjects of new commits", [f"{name}: {text}" for name, text in found if text])
    lint.finish()


main()
