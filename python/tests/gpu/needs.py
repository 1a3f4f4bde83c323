# SPDX-License-Identifier: MIT
"""What the tests in this folder need: a GPU that PyTorch sees. `missing` says what is not there; None: all is."""
import ctypes
import importlib
import importlib.util
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else JAX takes three quarters of the GPU


def find_missing():
    if "SLUICE_TEST_APART" in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        return "tests run in another process"  # and this one, which only starts that, need not wait for PyTorch
    if os.environ.get("SLUICE_CUDA_DRIVER", "libcuda.so.1") != "libcuda.so.1":
        return "the driver is one that PyTorch does not use"
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver"
    if not importlib.util.find_spec("torch"):
        return "torch is not installed"
    if not importlib.import_module("torch").cuda.is_available():
        return "torch sees no GPU"
    return None


missing = find_missing()
torch = None if missing else importlib.import_module("torch")
gpus = 0 if missing else torch.cuda.device_count()
