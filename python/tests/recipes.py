# SPDX-License-Identifier: MIT
"""The programs of docs/kernels-cookbook.md and its like: each is shown with what it prints, saved by a reader, and run."""
import os
import pathlib
import re
import subprocess
import sys

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGES = ["kernels-cookbook.md"]
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
SHOWN = re.compile(r"^```python\n([^`]*)^```\n\n```text\n([^`]*)^```", re.M)


def find(torch=False):
    """A program and what it prints, by page and heading: those with PyTorch, or the others."""
    found = {}
    for name in PAGES:
        text = (DOCS / name).read_text()
        assert len(SHOWN.findall(text)) == len(PROGRAM.findall(text)), f"{name}: a program does not show what it prints"
        for each in SHOWN.finditer(text):
            heading = re.findall(r"^## (.*)", text[:each.start()], re.M)[-1]
            if ("import torch" in each[1]) == torch:
                found[f"{name}: {heading}"] = each.groups()
    return found


def run(folder, recipe, **environment):
    """None of its launches may be unordered."""
    program, shown = recipe
    path = pathlib.Path(folder) / "program.py"
    path.write_text(program)
    env = {**os.environ, "PYTHONWARNINGS": "error", "SLUICE_DEBUG": "1", "SLUICE_CHECK": "streams", **environment}
    done = subprocess.run([sys.executable, path], env=env, capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stdout) == (0, shown), done.stderr


def run_on_host(folder, recipe):
    run(folder, recipe, SLUICE_CUDA_DRIVER="/nowhere/libcuda.so")
