#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/cuda-link-wire.md names a test for each hazard of cuda-link's wire, and each of these tests is built. usage: cipd.py ROOT"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
sys.dont_write_bytecode = True
from lint import Lint  # noqa: E402
from named_tests import check  # noqa: E402

lint = Lint()
check(lint, pathlib.Path(sys.argv[1]), "docs/cuda-link-wire.md", {"hazard": 17, "case": 10})
lint.finish()
