#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Copies CPython's headers, with another pyconfig.h than the one beside them. usage: headers.py PYCONFIG FOLDER"""
import pathlib
import shutil
import sys
import sysconfig

pyconfig, folder = map(pathlib.Path, sys.argv[1:])
shutil.copytree(sysconfig.get_path("include"), folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("internal"))
shutil.copy(pyconfig, folder / "pyconfig.h")
