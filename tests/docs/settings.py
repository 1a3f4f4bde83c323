#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tables of cuda-link's settings agree with the library. usage: settings.py ROOT SLUICE

Name, default, whether it is honoured and why not, row by row, as `sluice doctor --json` has them from the library. What cuda-link's component,
operators and Spout bridge can be told, and show, is on the page for TouchDesigner's users, with names that the library has.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
from lint import Lint

ROW = re.compile(r"^\| `(CUDALINK_\w+)` \| (?:`([^`]*)`|–) \| ([^|]*?) \| (.*?) \|$", re.M)
COMMANDS = re.compile(r"^\| `(CUDALINK_\w+)` \| ((?:`\w+`(?:, )?)+) \| [^|]* \|$", re.M)

SHOWN = """Active Mode Ipcmemname Numslots Cudadevice Debug Status Built-In Framewaitms
    frames cook_us copy_us begin_us end_us write_idx read_slot num_slots event_wait_us gpu_copy_us noframe_count version_changed_count
    rescued_count graph_hits graph_builds ipc_version status last_error last_error_frame init_note
    --dir --ipc --spout --width --height --fmt --device Restart Direction Spoutname Ipcname Pythonexe"""
MEMBERS = "## What the operators show"


def for_touchdesigner(root, lint):
    page = (root / "docs/touchdesigner.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    first = " ".join(row[0] for row in rows)
    gone = [word for word in SHOWN.split() if not re.search(rf"[ `]{re.escape(word)}[ ,`]", first + " ")]
    lint.check("docs/touchdesigner.md has each parameter, option and info channel of cuda-link's", gone)
    table = page[page.index(MEMBERS):].split("\n## ")[0] if MEMBERS in page else ""
    header = "".join((root / "include/sluice" / name).read_text() for name in ("cipd.h", "base.h", "frame.h"))
    named = {word for row in table.splitlines() for word in re.findall(r"`([a-z_]+)`", row.split(" | ")[-1])}
    odd = [word for word in sorted(named) if not re.search(rf"\b{word}\b", header) and word not in {"send_copy", "fetch_copy", "acquire"}]
    lint.check("what it names there is in the headers", odd if named else ["it names nothing"])
    results = [json.loads(path.read_text()) for path in sorted((root / "bench/results").glob("gpu-*.json"))]
    gpus = {gpu["name"].split()[1] for each in results for gpu in each.get("gpus", ())}  # NVIDIA H200
    says = next(part for part in page.split("\n\n") if "has been run on" in part)
    lint.check("it begins with the GPUs on which Sluice has run", [gpu for gpu in sorted(gpus) if gpu not in says] if gpus else ["none is known"])


def library(sluice):
    env = {name: value for name, value in os.environ.items() if not name.startswith("CUDALINK_")}
    said = subprocess.run([sluice, "doctor", "--json", "--quick"], env=env, text=True, stdout=subprocess.PIPE).stdout
    return json.loads(said)["cuda_link_variables"]


def main():
    root, lint = pathlib.Path(sys.argv[1]), Lint()
    text = (root / "docs/cuda-link-settings.md").read_text()
    page, commands = ROW.findall(text), [(name, said.replace("`", "").split(", ")) for name, said in COMMANDS.findall(text)]
    known = library(sys.argv[2])
    own = [(v["name"], v["default"], v["here"], v["what"]) for v in known]
    wrong = [f"the page has {row}" for row in page if row not in own] + [f"the library has {row}" for row in own if row not in page]
    lint.check("every variable of cuda-link's is in docs/cuda-link-settings.md as the library knows it", wrong)
    lint.check("they are in the same order", [] if wrong or page == own else ["they are not"])
    wanted = [(v["name"], v["commands"].split()) for v in known if v["commands"]]
    lint.check("the page has the commands that honour each, as the doctor knows them",
               [] if commands == wanted else [f"the page has {commands}, the doctor {wanted}"])
    for_touchdesigner(root, lint)
    lint.check("there are some of each kind", [] if {"honoured", "in Python", "no effect here", "TouchDesigner's side"} ==
               {row[2] for row in own} else ["there are not"])
    lint.finish()


main()
