# SPDX-License-Identifier: MIT
"""The programs of docs/kernels-cookbook.md, kernels-from-others.md and convert-others.md: each is shown with what it prints, and is run as a
reader saves it."""
import os
import pathlib
import re
import subprocess
import sys

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGES = ["kernels-cookbook.md", "kernels-from-others.md", "convert-others.md"]
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
IMPORT = re.compile(r"^(?:import|from) (?!numpy|sluice)(\w+)", re.M)  # another library than those that all tests have
SHOWN = re.compile(r"^```python\n([^`]*)^```\n\n```text\n([^`]*)^```", re.M)


def find(library=None):
    """Programs and what they print, by page and heading: those that need this library, or none."""
    found = {}
    for name in PAGES:
        text = (DOCS / name).read_text()
        assert len(SHOWN.findall(text)) == len(PROGRAM.findall(text)), f"{name}: a program does not show what it prints"
        for each in SHOWN.finditer(text):
            heading = re.findall(r"^##+ (.*)", text[:each.start()], re.M)[-1]
            if (IMPORT.findall(each[1]) or [None])[0] == library:
                found[f"{name}: {heading}"] = each.groups()
    return found


def run(folder, recipe, **environment):
    """None of its launches may be unordered. Other libraries may print something before."""
    program, shown = recipe
    path = pathlib.Path(folder) / "program.py"
    path.write_text(program)
    env = {**os.environ, "PYTHONWARNINGS": "error", "SLUICE_DEBUG": "1", "SLUICE_CHECK": "streams", **environment}
    done = subprocess.run([sys.executable, path], env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0 and done.stdout.endswith(shown), (done.stdout, shown, done.stderr)


def run_on_host(folder, recipe):
    run(folder, recipe, SLUICE_CUDA_DRIVER="/nowhere/libcuda.so")
