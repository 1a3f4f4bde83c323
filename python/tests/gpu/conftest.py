# SPDX-License-Identifier: MIT
"""Tests that run on a real GPU, with PyTorch; without, each is skipped by its name, or fails if SLUICE_TEST_GPU is set."""
import gc
import importlib
import os
import pathlib
import sys

import needs
import pytest
from child import children
from eventually import STARTS

HERE = pathlib.Path(__file__).parent


def freeze():
    """Each test collects garbage: not among the hundred thousands of objects that frameworks are made of."""
    gc.collect()
    gc.freeze()


def load(name):
    if name not in sys.modules:
        pytest.importorskip(name, reason=f"{name} is not installed")
        freeze()
    return importlib.import_module(name)


def pytest_collection_modifyitems(items):
    if not needs.missing:
        freeze()
    for item in items:
        if needs.missing and not os.environ.get("SLUICE_TEST_GPU") and HERE in pathlib.Path(item.path).parents:
            item.add_marker(pytest.mark.skip(reason=needs.missing))


@pytest.fixture(autouse=True)
def whole_gpu():
    """A test that fails leaves no work behind for the next, and no current stream. If it killed the GPU's context this process
    is of no more use: pytest-xdist, if it is at work, starts another one."""
    if needs.missing:
        pytest.fail(needs.missing)
    yield
    try:
        needs.torch.cuda.synchronize()
    except RuntimeError:
        if "PYTEST_XDIST_WORKER" in os.environ:
            os._exit(70)
        raise
    needs.torch.cuda.set_stream(needs.torch.cuda.default_stream())


@pytest.fixture(scope="session")
def cupy():
    return load("cupy")


@pytest.fixture(scope="session")
def jax():
    module = load("jax")
    if not any(device.platform in ("gpu", "cuda") for device in module.devices()):
        pytest.skip("this JAX has no GPU")
    return module


@pytest.fixture
def two_gpus():
    if needs.gpus < 2:
        pytest.skip("one GPU only")


@pytest.fixture
def role():
    with children(HERE / "gpu_roles.py", STARTS) as start:
        yield start
