#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A Meson project that has Sluice as a subproject builds the library and nothing else of it. usage: subproject.py ROOT CC"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
from lint import Lint

PROJECT = """\
project('theirs', 'c', default_options: ['optimization=0'])
executable('writer', 'writer.c', dependencies: dependency('sluice'))
"""
WANTED = ["sluice", "sluice", "writer"]  # the library, shared and static; the program


def run(arguments, env):
    """The errors: none, or the output."""
    done = subprocess.run(arguments, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return [done.stdout] if done.returncode else []


def built_targets(build):
    listed = subprocess.run(["meson", "introspect", "--targets", build], check=True, text=True, stdout=subprocess.PIPE)
    return sorted(target["name"] for target in json.loads(listed.stdout) if target["build_by_default"])


def main():
    root, env = pathlib.Path(sys.argv[1]).resolve(), dict(os.environ, CC=sys.argv[2])
    lint = Lint()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        (folder / "subprojects").mkdir()
        (folder / "subprojects" / "sluice").symlink_to(root)
        (folder / "meson.build").write_text(PROJECT)
        shutil.copy(root / "examples" / "writer.c", folder)
        build = folder / "build"
        problems = run(["meson", "setup", "-Doptimization=0", build, folder], env)
        lint.check("it is configured", problems)
        if not problems:
            targets = built_targets(build)
            lint.check("it has the library alone", [] if targets == WANTED else [f"it builds {targets}"])
            lint.check("its program is built", run(["meson", "compile", "-C", build], env))
    lint.finish()


if not shutil.which("meson"):
    print("1..0 # SKIP meson is needed")
else:
    main()
