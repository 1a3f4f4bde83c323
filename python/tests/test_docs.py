# SPDX-License-Identifier: MIT
"""The examples run, and what the pages show stands in them."""
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

import recipes
import sluice
from eventually import STARTS, wait_until

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "python" / "examples").glob("*.py"))
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
         if "```python" in page.read_text() and page.name not in [*recipes.PAGES, "gstreamer.md"]]  # tests/gstreamer runs what that shows
FRAMES = "240"  # for 4 s: how soon a reader is there, and how often it runs, depends on the machine; the last one it gets
LAST = f"frame {FRAMES}"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)


def squeezed(text):
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def program(path):
    """What a page shows of a whole file: neither the licence nor its own heading."""
    return path.read_text().partition('"""\n')[2]


def start(example, *args, prefix=(), before=()):
    return subprocess.Popen([*prefix, sys.executable, *before, str(ROOT / "python" / "examples" / example), *args],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "PYTHONWARNINGS": "error", "SLUICE_DEBUG": "1", "PYTHONUNBUFFERED": "1"})


def is_looking(pid):
    """Has it, or what it has started, Sluice's thread? A reader that waits for its writer has."""
    tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
    return any((task / "comm").read_text() == "sluice service\n" for task in tasks) or any(
        is_looking(child) for task in tasks for child in (task / "children").read_text().split())


LOADED = """
import runpy, sys
import numpy, sluice
print("loaded", flush=True)
sys.stdin.readline()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def start_pair(reader, writer, prefix=()):
    """A reader that looks for its writer already, and a writer that is there at once then: they have some seconds only, of which
    beginning takes a busy machine too many."""
    writing = start(*writer, prefix=prefix, before=("-c", LOADED))
    assert writing.stdout.readline() == "loaded\n"
    reading = start(*reader, prefix=prefix)

    def looks():
        with contextlib.suppress(OSError):  # of a thread that has just ended
            return reading.poll() is not None or is_looking(reading.pid)

    wait_until(looks)
    writing.stdin.write("\n")
    writing.stdin.flush()
    return reading, writing


def finish(process):
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0 and "Error" not in err, err
    return out.splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_pages_show_is_a_whole_example_or_names_it(page):
    """A program as it is, or a part of the file that the first line names."""
    programs = [program(path) for path in EXAMPLES]
    for block in BLOCK.findall(page.read_text()):
        named = re.match(r" *# (python/examples/\w+\.py)\n", block)
        if named:
            assert squeezed(block[named.end():]) in squeezed((ROOT / named[1]).read_text()), block
        else:
            assert block in programs, block


def test_there_are_pages_and_examples():
    assert len(PAGES) >= 15 and len(EXAMPLES) >= 25


@pytest.mark.parametrize("other", ["reader.py", "async_reader.py", "opencv_edges.py"])
def test_pairs(other):
    if other.startswith("opencv"):
        pytest.importorskip("cv2", reason="opencv-python-headless is not installed")
    reading, writing = start_pair([other], ["writer.py", FRAMES])
    assert finish(writing) == []
    shown = finish(reading)
    if other == "reader.py":
        assert all(re.fullmatch(r"frame \d+, \d+ missed, frame \d+: blue is \d+", line) for line in shown)
        assert shown[-1].startswith(LAST)
    elif other == "async_reader.py":
        assert "tick" in shown and any(line.startswith(LAST) for line in shown)


@pytest.mark.parametrize("example, expected", [
    ("convert.py", ["(960.0, 540.0)", "[[ 480.  120. 1440.  960.]", " [   0.    0.  120. 1080.]]"]),
    ("several_arrays.py", ["('view', 'depth', 'boxes') (1, 4) 1.5"]),
    ("opencv_nv12.py", ["(72, 64) (48, 64, 3) 0"]),
    ("async_timeout.py", ["nothing yet", "frame 1"]),
    ("processes.py", ["[49950000, 49950000]"]),
    ("dataset.py", [f"(3, 8, 8) {float(number)}" for number in range(8)]),
    ("streams.py", [f"work {number} on host" for number in range(1, 8)]),
])
def test_single_programs(example, expected):
    if example.startswith("opencv"):
        pytest.importorskip("cv2", reason="opencv-python-headless is not installed")
    assert finish(start(example)) == expected


def test_a_live_loop():
    running = start("live_filter.py")
    with sluice.Writer("camera", sluice.Image("rgba", 64, 64)) as camera, sluice.Reader("painted", wait=None) as painted:
        shown = 0
        while shown != 170:  # black, until the loop has met the camera
            camera.send(np.full((64, 64, 4), 180, np.uint8))
            with painted.next(STARTS) as frame:
                shown = frame.numpy()[0, 0, 0]
        running.send_signal(signal.SIGINT)
        _, log = running.communicate(timeout=STARTS)
        assert running.returncode == 0, log


@pytest.mark.parametrize("way", ["zeromq", "pipe", "channel"])
def test_the_ways_that_a_channel_replaces(way):
    if way == "zeromq":
        pytest.importorskip("zmq", reason="pyzmq is not installed")
    assert finish(start("from_zeromq.py", way)) == [str(sum(range(20)) * 480 * 640 * 3)]


def test_workers_share_the_work(monkeypatch):
    """What the page's data set gives two workers: each frame to one of them."""
    monkeypatch.syspath_prepend(ROOT / "python" / "examples")
    import dataset
    own = threading.local()
    monkeypatch.setattr(dataset, "get_worker_info", lambda: types.SimpleNamespace(id=own.number, num_workers=2))

    def work(number):
        own.number = number
        return [int(array[0]) for array in dataset.Share("shared-work", 8)]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        workers = [pool.submit(work, number) for number in range(2)]
        with sluice.Writer("shared-work", shape=(1,), policy="wait", wait=60) as writer:
            wait_until(lambda: writer.stats().readers == 2)
            for number in range(1, 9):
                writer.send(np.array([number], "u1"))
            assert [worker.result() for worker in workers] == [[2, 4, 6, 8], [1, 3, 5, 7]]


def test_streams_of_a_gpu(gpu):
    assert finish(start("streams.py", gpu.device)) == [f"work {number} on {gpu.device}" for number in range(1, 8)]


def test_the_readmes_two_programs():
    reading, writing = start_pair(["hello_reader.py"], ["hello_writer.py"])
    assert finish(writing) == []
    shown = [line.split() for line in finish(reading)]
    assert shown[-1] == ["250", "249"] and all(int(sequence) == int(value) + 1 for sequence, value in shown)


def test_the_tutorial_as_pasted(tmp_path, monkeypatch):
    """Its two pages into one shell, which goes from one to the next; in place of a camera and a window there is what they offer."""
    cv2 = pytest.importorskip("cv2", reason="opencv-python-headless is not installed")
    monkeypatch.syspath_prepend(ROOT / "tests" / "docs")
    import page
    pasted = [block for number in (1, 2) for block in page.blocks(ROOT / "docs" / f"tutorial-{number}.md")]
    assert [block.file for block in pasted if block.file] == ["camera.py", "filter.py", "display.py", "recorder.py"]
    python = tmp_path / "bin" / "python"  # an interpreter may have no command of that name
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    path = f"{python.parent}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONWARNINGS": "error", "SLUICE_DEBUG": "1"}
    status, log = page.paste(pasted, env, tmp_path, tmp_path / "log", 300)
    assert status in (0, 128 + 15) and "\n== end\n" in log and "Traceback" not in log, log  # its programs were killed
    for name in ("camera.png", "edges.png"):
        assert cv2.imread(str(tmp_path / name)).shape == (480, 640, 3)
    assert len(re.findall(r"^frame \d+: \d+\.\d ms old, \d+ missed$", log, re.M)) == 15
    assert re.search(r"^60 frames in edges.mp4, \d+ missed$", log, re.M)
    assert cv2.VideoCapture(str(tmp_path / "edges.mp4")).get(cv2.CAP_PROP_FRAME_COUNT) == 60


def test_two_containers():
    own = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc", "--net"]
    if not shutil.which("unshare") or subprocess.run([*own, "true"], capture_output=True).returncode:
        pytest.skip("no namespaces here")
    reading, writing = start_pair(["reader.py"], ["writer.py", FRAMES], prefix=own)
    finish(writing)
    assert finish(reading)[-1].startswith(LAST)


@pytest.mark.parametrize("on", ["host", "gpu"])
def test_copies(request, on):
    device = "host" if on == "host" else request.getfixturevalue("gpu").device
    assert finish(start("gpu_copies.py", device)) == ["frame 1: 10.0, 10.0", "frame 2: 20.0", "frame 1: 30.0, 30.0"]


@pytest.mark.parametrize("on", ["host", "gpu"])
def test_kernels(request, on):
    device = "host" if on == "host" else request.getfixturevalue("gpu").device
    assert finish(start("kernels.py", device)) == ["host memory: 1500", "parallel and recorded: 34.0 2.0", "graph: 2 nodes, 1 update",
                                                   "inverted: 250"]


@pytest.mark.parametrize("recipe", recipes.find().values(), ids=recipes.find().keys())
@pytest.mark.parametrize("on", ["host", "gpu"])
def test_recipes(request, tmp_path, on, recipe):
    if on == "host":
        recipes.run_on_host(tmp_path, recipe)
    else:
        request.getfixturevalue("gpu")
        recipes.run(tmp_path, recipe)


@pytest.mark.parametrize("recipe", recipes.find("cv2").values(), ids=recipes.find("cv2").keys())
def test_recipes_with_opencv(tmp_path, recipe):
    pytest.importorskip("cv2", reason="opencv-python-headless is not installed")
    recipes.run_on_host(tmp_path, recipe)


def test_a_program_of_cuda_links(gpu):
    path = ROOT / "python" / "examples" / "cuda_link_pair.py"
    done = subprocess.run([sys.executable, "-m", "sluice.cuda_link", str(path)], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"(64, 96, 4) full of {number} to {number}" for number in range(5)]


def test_every_example_is_run_by_a_test():  # torch_in_place.py by test_torch.py
    text = pathlib.Path(__file__).read_text()
    for name in "test_live_calibrate.py", "gpu/test_real_examples.py", "gpu/test_real_live_examples.py":
        text += (ROOT / "python" / "tests" / name).read_text()
    assert [path.name for path in EXAMPLES if path.name not in text] == []
