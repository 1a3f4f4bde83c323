#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the package on a GPU beside what else Python programs use: bench_gpu.py [--quick] [--cuda-link FOLDER] [-o figures.json]

Calls in one process, each beside the floor that the frameworks themselves have. Then, across two processes, how long it
takes from just before a CUDA tensor is put to where the other process has a tensor that it can launch work on; the next one
is put when the last one was taken. Each row says whether the receiver sleeps while it waits, or spins; whether the sender was
awake before, or had slept; and whether the tensor was filled before, its kernel done, or is filled within what is measured.
torch.multiprocessing is measured beside it, by the same steps, and cuda-link if its package is importable or --cuda-link names the
folder that it lies in: of 1.5 and later by Exporter and Importer, of before by its classes. Then calls of sluice.cuda_link, and of
cuda-link where that has the same, beside the bare copy into pinned memory. Launches of kernels, beside the driver, cuda.core, CuPy,
Triton and PyTorch; conversions to a tensor beside PyTorch's interpolation; and, where Quadrants is installed, bench/python_quadrants.py.

One JSON object comes out, with the keys of `sluice bench`; the file of -o has it all the time, as far as it has come. Without PyTorch, or a GPU that it sees, only what needs none is measured:
calls of sluice.cuda_link, on the GPU that the driver sees (SLUICE_CUDA_DRIVER may name the fake one). Without that, too, it says why, and
ends with status 77. cuda-link loads NVIDIA's runtime by a name of its own, which this finds for it: python/tests/peer_runtime.py.
"""
import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:] = [path for path in sys.path if pathlib.Path(path or ".").resolve() != HERE]  # the package that is installed
sys.path += [str(HERE.parent / "bench"), str(HERE / "tests")]
from peer_runtime import package_folder, place  # noqa: E402
from python_calls import calls  # noqa: E402
from python_convert import conversions  # noqa: E402
from python_kernels import kernels  # noqa: E402
from python_kit import at_notes, note  # noqa: E402
from python_links import links  # noqa: E402
from python_ways import handoffs  # noqa: E402
from rows import commit_of, write  # noqa: E402

NO_GPU = 77
PLACED = "SLUICE_BENCH_PLACED"  # the loader finds the runtime already


def versions():
    found = {}
    for name in ("torch", "cupy", "jax", "numpy", "triton", "cuda.core", "cuda_link", "sluice"):
        with contextlib.suppress(ImportError):
            found[name] = getattr(importlib.import_module(name), "__version__", "?")
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found["quadrants"] = importlib.metadata.version("quadrants")  # used in other processes only
    return found


def find_torch():
    """PyTorch, if it sees a GPU; and what is missing without."""
    try:
        import torch
        if torch.cuda.is_available():
            return torch, []
        why = "torch sees no GPU"
    except ImportError as error:
        why = str(error)
    try:
        importlib.import_module("sluice.cuda_link").get_cuda_runtime()
    except RuntimeError as error:
        note(f"nothing is measured: {why}; {error}")
        sys.exit(NO_GPU)
    return None, [{"rows": "py_gpu_*, but for py_gpu_link_* and py_gpu_floor_pinned_copy", "why": why}]


def quadrants(quick, report):
    """bench/python_quadrants.py in processes of its own, on the GPU and on the CPU."""
    if not importlib.util.find_spec("quadrants"):
        report["missing"].append({"rows": "py_gpu_quadrants_*", "why": "No module named 'quadrants'"})
        return
    for device in ("cuda", "cpu"):
        note(f"quadrants, {device}")
        command = [sys.executable, HERE.parent / "bench/python_quadrants.py", device, *(["--quick"] if quick else [])]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            found = json.loads(done.stdout.strip().splitlines()[-1])
        except (IndexError, ValueError):
            words = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
            found = {"missing": [{"rows": f"py_gpu_quadrants_*, {device}", "why": words}]}
        for key, entries in found.items():
            report[key] += entries


def measure(options):
    out = os.fdopen(os.dup(1), "w")
    output = options.output and pathlib.Path(options.output)
    os.dup2(2, 1)  # cuda-link prints which runtime it has loaded
    began = time.monotonic()
    torch, missing = find_torch()
    report = {"missing": missing, "failed": [], "rows": []}
    head = {"python": sys.version.split()[0], "packages": versions(), "commit": commit_of(HERE)}

    def keep(**more):
        """Complete at any time, also when the program is killed."""
        beside = output.with_suffix(".writing")
        with beside.open("w") as file:
            write({**more, **head, "seconds": round(time.monotonic() - began, 1), **report}, file)
        beside.replace(output)

    if output:
        at_notes.append(lambda: keep(unfinished=True))
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        os.environ["SLUICE_DIR"] = folder
        if torch:
            report["rows"] += calls(torch, 500 if options.quick else 10_000)
            handoffs(torch, 50 if options.quick else 500, report)
        if torch:
            conversions(torch, 20 if options.quick else 500, report)
        kernels(torch, 50 if options.quick else 2000, report)
        links(torch, 50 if options.quick else 500, report)
        quadrants(options.quick, report)
    if torch:
        head["gpu"] = torch.cuda.get_device_name(0)
    if output:
        keep()
    else:
        write({**head, "seconds": round(time.monotonic() - began, 1), **report}, out)
    out.close()
    return 1 if report["failed"] else 0


def placed(link):
    """The same again in a process whose loader finds the runtime: LD_LIBRARY_PATH counts from the start."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-runtime-") as where:
        found = place(link, where)
        if not found:
            note("cuda-link will find no CUDA runtime 12: there is none beside its package, of PyTorch's wheels, nor in /usr/local")
        done = subprocess.run([sys.executable, *sys.argv], env={**os.environ, **found, PLACED: "1"})
        return done.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it works")
    parser.add_argument("--cuda-link", metavar="FOLDER", help="where the package cuda_link lies")
    parser.add_argument("-o", "--output", metavar="FILE", help="where the JSON goes, instead of standard output")
    options = parser.parse_args()
    link = package_folder(options.cuda_link)
    if options.cuda_link and not link:
        parser.error(f"there is no package cuda_link in {options.cuda_link}")
    if link and PLACED not in os.environ:
        sys.exit(placed(link))
    if link:
        sys.path.insert(0, str(link))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(link), os.environ.get("PYTHONPATH"))))
    sys.exit(measure(options))


if __name__ == "__main__":
    main()
