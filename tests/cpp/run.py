#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles a C++ program with a compiler, links it to the shared library and runs it; TAP comes out.
usage: run.py COMPILER STANDARD INCLUDES LIBRARY SOURCE [OPTION...]
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

compiler, standard, includes, library, source, *options = sys.argv[1:]
if not shutil.which(compiler):
    print(f"1..1\nok 1 - {pathlib.Path(source).name} by {compiler} # SKIP no {compiler} here")
    sys.exit(0)
folder = pathlib.Path(library).resolve().parent
with tempfile.TemporaryDirectory() as temporary:
    program = pathlib.Path(temporary) / "program"
    command = [compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", *options, source,
               *[f"-I{i}" for i in includes.split(":")], library, f"-Wl,-rpath,{folder}", "-o", program]
    if subprocess.run(command).returncode:
        sys.exit(f"{compiler} does not take {source}")
    done = subprocess.run([program], env=dict(os.environ, SLUICE_DIR=temporary), timeout=60)
sys.exit(done.returncode)
