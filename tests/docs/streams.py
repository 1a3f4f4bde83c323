#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/testing.md names the tests of streams, kernels and graphs by number, and each of them is built. usage: streams.py ROOT"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
sys.dont_write_bytecode = True
from lint import Lint  # noqa: E402
from named_tests import check  # noqa: E402

lint = Lint()
check(lint, pathlib.Path(sys.argv[1]), "docs/testing.md", {"test": 40, "proof": 13})
lint.finish()
