# SPDX-License-Identifier: MIT
"""`python -m sluice.cuda_link program.py ...`, or `-m module ...`: runs a program of cuda-link's on Sluice. Processes that it
starts find the same."""
import argparse
import os
import runpy
import sys

from . import STAND_IN, install


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sluice.cuda_link", description="Runs a program of cuda-link's on Sluice.",
                                     usage="%(prog)s [--as NAME] (PROGRAM.py | -m MODULE) [ARGUMENT...]")
    parser.add_argument("--as", dest="names", action="append", default=[], metavar="NAME",
                        help="the program has a copy of cuda-link by this name, as in `from NAME import CUDAIPCImporter`")
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module's name")
    parser.add_argument("program", metavar="PROGRAM")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="ARGUMENT")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    for name in ("cuda_link", *given.names):
        install(name)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (STAND_IN, os.environ.get("PYTHONPATH"))))
    sys.argv = [given.program, *given.rest]
    if given.module:
        runpy.run_module(given.program, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(given.program)))
        runpy.run_path(given.program, run_name="__main__")


if __name__ == "__main__":
    main()
