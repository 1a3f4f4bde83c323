# SPDX-License-Identifier: MIT
"""sluice_check.py CHANNEL: for sluice-check.ps1. Takes a frame by the package that this Python has, or else by that in lib."""
import importlib.metadata
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "lib"))
import sluice
import sluice.cuda_link

print("Python", sys.version)
print("sluice", sluice.__version__, "in", sluice.__path__[0])
for name in ("cuda-link", "cupy-cuda12x", "numpy", "torch"):
    try:
        print(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        print(name, "is not installed")
with sluice.Reader(sys.argv[1], device="cuda:0", wait=20) as reader, reader.next(20) as frame:
    print("a frame of", sys.argv[1], "came:", frame)
