#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles cxx17.cpp with a compiler, links it to the shared library and runs it; TAP comes out.
usage: cxx17.py COMPILER INCLUDES LIBRARY SOURCE
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

compiler, includes, library, source = sys.argv[1:]
if not shutil.which(compiler):
    print(f"1..1\nok 1 - a C++17 program by {compiler} # SKIP no {compiler} here")
    sys.exit(0)
folder = pathlib.Path(library).resolve().parent
with tempfile.TemporaryDirectory() as temporary:
    program = pathlib.Path(temporary) / "program"
    command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", source,
               *[f"-I{i}" for i in includes.split(":")], library, f"-Wl,-rpath,{folder}", "-o", program]
    if subprocess.run(command).returncode:
        sys.exit(f"{compiler} does not take {source}")
    done = subprocess.run([program], env=dict(os.environ, SLUICE_DIR=temporary), timeout=60)
sys.exit(done.returncode)
