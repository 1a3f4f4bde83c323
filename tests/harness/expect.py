#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the harness: runs cases.c, where each test's name says what the harness must report. usage: expect.py CASES"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

EXPECTED = {"pass": "ok", "skip": "ok", "fail": "not ok"}


def main():
    program = sys.argv[1]
    names = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.split()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program], capture_output=True, text=True, timeout=250,
                              env=dict(os.environ, TMPDIR=folder))
        left = sorted(p.name for p in pathlib.Path(folder).iterdir())
    seen = {m[2]: (m[1], m[3] or "") for m in
            re.finditer(r"^(ok|not ok) \d+ - (\S+)( # SKIP .+)?$", done.stdout, re.M)}

    judged = []
    for name in names:
        what = name.split(".")[1].split("_")[0]
        verdict, skip = seen.get(name, ("no line", ""))
        judged.append((name, verdict == EXPECTED[what] and bool(skip) == (what == "skip")))
    judged.append(("the plan comes first", f"1..{len(names)}" in done.stdout.splitlines()[:2]))
    judged.append(("the exit status says that some failed", done.returncode == 1))
    judged.append(("one test alone", subprocess.run(
        [program, "pass_checks"], capture_output=True).returncode == 0))
    judged.append(("an unknown name is refused", subprocess.run(
        [program, "no_such_test"], capture_output=True).returncode == 2))
    chosen = [subprocess.run([program, "--list", *patterns], capture_output=True, text=True) for patterns in
              (["!pass_checks"], ["pass_*", "!pass_checks"], ["!no_such_test"])]
    others = [name for name in names if not name.endswith(".pass_checks")]
    judged.append(("excluded tests", chosen[0].stdout.split() == others))
    judged.append(("tests excluded from those named",
                   chosen[1].stdout.split() == [name for name in others if name.split(".")[1].startswith("pass_")]))
    judged.append(("an unknown name cannot be excluded", chosen[2].returncode == 2))
    judged.append(("no folder is left", not left))

    several = subprocess.run([program, "--jobs=9"], capture_output=True, text=True, timeout=250)
    lines = re.findall(r"^(ok|not ok) (\d+) - (\S+)( # SKIP .+)?$", several.stdout, re.M)
    judged.append(("parallel runs give the same results",
                   {name: (verdict, skip) for verdict, _, name, skip in lines} == seen and several.returncode == 1))
    judged.append(("their numbers are in order", [int(line[1]) for line in lines] == list(range(1, len(names) + 1))))
    refused = [subprocess.run([program, f"--jobs={jobs}", "pass_checks"], capture_output=True).returncode
               for jobs in ("0", "-1", "x", "16", "1000")]
    judged.append(("the number of jobs is checked", refused == [2, 2, 2, 0, 0]))

    print(f"1..{len(judged)}")
    for number, (name, good) in enumerate(judged, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
    if not all(good for _, good in judged):
        print("\n".join("# " + line for line in done.stdout.splitlines()))
        sys.exit(1)


main()
