# SPDX-License-Identifier: MIT
"""Where cuda-link's own package lies, and the CUDA runtime that it loads; for tests and for the bench."""
import contextlib
import glob
import importlib.util
import os
import pathlib

PEERS = os.environ.get("SLUICE_CUDA_LINK", "")
NAME = "cudart64_12.dll"  # by which cuda-link loads the runtime, also on Linux


def package_folder(named=PEERS):
    folder = pathlib.Path(named).resolve() if named else None
    return folder if folder and (folder / "cuda_link/__init__.py").exists() else None


def is_of_classes(folder):
    """Is it one of before 1.5, with CUDAIPCExporter and CUDAIPCImporter and nothing else to write and read by?"""
    return folder is not None and not (folder / "cuda_link/exporter.py").exists()


def runtimes(folder):
    """Where NVIDIA's runtime may be: beside cuda-link's package, beside that folder for several packages, or where PyTorch's
    wheels bring one. Of CUDA 12: what that of 13 writes into structs is more than cuda-link 1.12.0 has room for, and its
    processes crash."""
    yield folder / "libcudart.so.12"
    yield folder.parent / "libcudart.so.12"
    with contextlib.suppress(ImportError, ValueError):
        wheel = importlib.util.find_spec("nvidia.cuda_runtime")
        for place in wheel.submodule_search_locations if wheel else ():
            yield pathlib.Path(place) / "lib/libcudart.so.12"
    yield from map(pathlib.Path, glob.glob("/usr/local/cuda*/lib64/libcudart.so.12"))


def with_its_name(folder, where):
    """Puts NVIDIA's runtime into the folder `where`, by the name that cuda-link asks for. False if there is none."""
    found = next((each for each in runtimes(folder) if each.exists()), None)
    if found:
        (pathlib.Path(where) / NAME).symlink_to(found.resolve())
    return found is not None


def place(folder, where):
    """The environment in which a process finds the runtime: NVIDIA's, from `where`, or, if a fake driver is used, what lies beside
    that. Empty if there is neither."""
    driver = os.environ.get("SLUICE_CUDA_DRIVER")
    if driver and (pathlib.Path(driver).parent / NAME).exists():
        return {"LD_LIBRARY_PATH": search_path(pathlib.Path(driver).parent)}
    return {"LD_LIBRARY_PATH": search_path(where)} if with_its_name(folder, where) else {}


def search_path(where):
    """LD_LIBRARY_PATH of a process that finds the runtime in `where`: it counts from the process's start."""
    return os.pathsep.join(filter(None, (str(where), os.environ.get("LD_LIBRARY_PATH"))))
