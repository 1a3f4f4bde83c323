#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table of cuda-link's environment variables says what the library says. usage: settings.py ROOT SLUICE

Name, default, whether it is honoured and why not, row by row, as `sluice doctor --json` has them from the library.
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


def library(sluice):
    env = {name: value for name, value in os.environ.items() if not name.startswith("CUDALINK_")}
    said = subprocess.run([sluice, "doctor", "--json", "--quick"], env=env, text=True, stdout=subprocess.PIPE).stdout
    return json.loads(said)["cuda_link_variables"]


def main():
    root, lint = pathlib.Path(sys.argv[1]), Lint()
    text = (root / "docs/cuda-link.md").read_text()
    page, commands = ROW.findall(text), [(name, said.replace("`", "").split(", ")) for name, said in COMMANDS.findall(text)]
    known = library(sys.argv[2])
    own = [(v["name"], v["default"], v["here"], v["what"]) for v in known]
    wrong = [f"the page has {row}" for row in page if row not in own] + [f"the library has {row}" for row in own if row not in page]
    lint.check("every variable of cuda-link's is in docs/cuda-link.md as the library knows it", wrong)
    lint.check("they are in the same order", [] if wrong or page == own else ["they are not"])
    wanted = [(v["name"], v["commands"].split()) for v in known if v["commands"]]
    lint.check("the page has the commands that honour each, as the doctor knows them",
               [] if commands == wanted else [f"the page has {commands}, the doctor {wanted}"])
    lint.check("there are some of each kind", [] if {"honoured", "in Python", "no effect here", "TouchDesigner's side"} ==
               {row[2] for row in own} else ["there are not"])
    lint.finish()


main()
