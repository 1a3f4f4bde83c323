# SPDX-License-Identifier: MIT
"""A folder of channels for each test, other processes, and a scale for the long ones."""
import gc
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback

import pytest

import gpu_kit
from child import children
from eventually import STARTS, wait_until
from shares import keep_share


def pytest_configure(config):
    config.addinivalue_line("markers", "limit(seconds): how long this test may take")
    config.addinivalue_line("markers", "linux(what): it needs this, which Windows has not")
    config.stash[NO_GPU] = gpu_kit.find()


def pytest_runtest_setup(item):
    mark = item.get_closest_marker("linux")
    if mark and os.name == "nt":
        pytest.skip(f"on Windows: no {mark.args[0]}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    keep_share(config, items)


def pytest_collection_finish():
    """Garbage is collected behind each test: not among what modules are made of, which takes longer than most tests."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """What a failed test held ends while its streams and its memory are still there, which fixtures end behind it."""
    yield
    error = call.excinfo and not item.config.option.usepdb and call.excinfo.value
    if error and "gpu" in item.funcargs:
        item.funcargs["gpu"].open_gates()
    while error:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


NO_GPU = pytest.StashKey()
HERE = pathlib.Path(__file__).parent
LIMIT = 600  # s


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path_factory):
    path = tempfile.mkdtemp(prefix="sluice-py-")  # short: sockets lie in it
    monkeypatch.setenv("SLUICE_DIR", path)
    # one for all tests, and for all processes that share the work
    kernels = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("SLUICE_CACHE", str((kernels.parent if "PYTEST_XDIST_WORKER" in os.environ else kernels) / "kernels"))
    yield path
    gc.collect()  # readers that a traceback keeps would join the next test's channels

    def gone():
        shutil.rmtree(path, ignore_errors=True)  # what ends on a thread of its own takes files away meanwhile
        return not os.path.exists(path)

    wait_until(gone)


@pytest.fixture(autouse=True)
def time_limit(request):
    """A wait that should end does: LIMIT a test, or what a mark `limit` says. Only a hang takes as long, on any machine."""
    mark = request.node.get_closest_marker("limit")

    def over(*_):
        raise AssertionError("the test took too long")

    if not hasattr(signal, "SIGALRM"):  # on Windows, whose run has a limit of its own
        yield
        return
    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(mark.args[0] if mark else LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def gpu(request):
    """The machine's GPU, or the fake driver's: see gpu_kit.py."""
    why = request.config.stash[NO_GPU]
    if why and os.environ.get("SLUICE_TEST_GPU"):
        pytest.fail(why)
    if why:
        pytest.skip(why)
    kit = gpu_kit.Gpu()
    if os.environ.get("SLUICE_TEST_GPU") and kit.fake:
        pytest.fail("SLUICE_TEST_GPU is set, and this is the fake driver")
    yield kit
    gc.collect()  # what holds frames ends before their streams
    kit.close()


@pytest.fixture
def scale():
    """SLUICE_TEST_SCALE: how many times as long as usual the long tests take."""
    return float(os.environ.get("SLUICE_TEST_SCALE", "1"))


@pytest.fixture
def start():
    with children(HERE / "roles.py", STARTS) as start:
        yield start


@pytest.fixture
def run():
    """Runs a piece of Python in a process of its own; gives what it printed."""

    def run(code, timeout=LIMIT - 100, check=True, env=None):
        done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True,
                              timeout=timeout, env={**os.environ, **(env or {})})
        if check:
            assert done.returncode == 0 and done.stderr == "", done.stderr + done.stdout
        return done if not check else done.stdout

    return run
