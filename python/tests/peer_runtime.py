# SPDX-License-Identifier: MIT
"""Where cuda-link's own package lies, and the CUDA runtime that it loads."""
import contextlib
import glob
import importlib.util
import os
import pathlib

PEERS = os.environ.get("SLUICE_CUDA_LINK", "")


def package_folder():
    folder = pathlib.Path(PEERS).resolve() if PEERS else None
    return folder if folder and (folder / "cuda_link/__init__.py").exists() else None


def runtimes():
    """Where NVIDIA's runtime may be: beside cuda-link's package, or where PyTorch's wheels bring one. Of CUDA 12: what that
    of 13 writes into structs is more than cuda-link 1.12.0 has room for, and its processes crash."""
    yield package_folder() / "libcudart.so.12"
    with contextlib.suppress(ImportError, ValueError):
        for place in importlib.util.find_spec("nvidia.cuda_runtime").submodule_search_locations:
            yield pathlib.Path(place) / "lib/libcudart.so.12"
    yield from map(pathlib.Path, glob.glob("/usr/local/cuda*/lib64/libcudart.so.12"))
