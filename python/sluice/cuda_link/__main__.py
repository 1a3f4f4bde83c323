# SPDX-License-Identifier: MIT
"""`python -m sluice.cuda_link program.py ...`, or `-m module ...`: runs a program of cuda-link's on Sluice, which may come from a pipe,
too (`-`: from stdin). Processes that it starts find the same."""
import argparse
import os
import pathlib
import runpy
import sys
import types

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


def run_path(path: str) -> None:
    """runpy reads a file twice, of which the second time nothing comes out of a pipe."""
    if path != "-" and not os.path.exists(path):
        sys.exit(f"python -m sluice.cuda_link: there is no program {path!r}; use -m for a module's name")
    if path != "-" and (os.path.isfile(path) or os.path.isdir(path)):
        runpy.run_path(path, run_name="__main__")
        return
    name = "<stdin>" if path == "-" else path
    program = compile(sys.stdin.buffer.read() if path == "-" else pathlib.Path(path).read_bytes(), name, "exec")
    module = types.ModuleType("__main__")
    module.__file__ = name
    sys.modules["__main__"] = module
    exec(program, module.__dict__)


def main() -> None:
    given = arguments()
    for name in ("cuda_link", *given.names):
        install(name)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (STAND_IN, os.environ.get("PYTHONPATH"))))
    sys.argv = [given.program, *given.rest]
    if given.module:
        runpy.run_module(given.program, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, "" if given.program == "-" else os.path.dirname(os.path.abspath(given.program)))
        run_path(given.program)


if __name__ == "__main__":
    main()
