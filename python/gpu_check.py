# SPDX-License-Identifier: MIT
"""The Python package in tools/gpu-check: built by Meson alone, tested by pytest on the machine's GPU, measured. No network."""
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import sys
import time
import xml.etree.ElementTree as tree

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "python/tests"
ALONE = ("test_real_lives.py",  # how much of the GPU's memory is free tells it what was left behind
         "test_real_examples.py")  # they play in real time
sys.path.append(str(TESTS))
from peer_runtime import is_of_classes  # noqa: E402, F401
NO_GPU = 77  # of bench_gpu.py


def build(folder, out, jobs, run):
    """The folder that PYTHONPATH must name, or a text that says what went wrong."""
    steps = [["ninja", "-C", folder, "-j", jobs],
             ["meson", "install", "-C", folder, "--no-rebuild", "--quiet", "--tags", "python-runtime", "--destdir", folder / "site"]]
    if not (folder / "build.ninja").exists():
        steps.insert(0, ["meson", "setup", folder, "--buildtype=release", "--prefix=/sluice", "-Dpython.platlibdir=lib/python",
                         "-Dpython=enabled", "-Dtests=disabled", "-Dexamples=disabled", "-Dfuzz=disabled"])
    for step in steps:
        status, text, _ = run(step, out / f"python-{'-'.join(step[:1 + (step[0] == 'meson')])}.log", 240)
        if status:
            return f"{' '.join(map(str, step[:3]))}: {text[-2000:]}"
    return folder / "site/sluice/lib/python"


def environment(site):
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH")))),
            "PYTHONDONTWRITEBYTECODE": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def as_tap(results):
    """pytest's results as the lines that gpu-check reads."""
    lines = []
    for number, case in enumerate(tree.parse(results).getroot().iter("testcase"), 1):
        name = f"{case.get('classname').rpartition('.')[2]}.{case.get('name')}".replace(" ", "_")
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped = case.find("skipped")
        if bad is not None:
            words = (bad.text or bad.get("message") or "").splitlines()
            lines += [f"not ok {number} - {name}", *(f"# {word}" for word in words if word.startswith("E ") or ": " in word[-80:])]
        else:
            lines.append(f"ok {number} - {name}" + ("" if skipped is None else f" # SKIP {skipped.get('message')}"))
    return "\n".join(lines) + "\n"


def pytest(site, out, run, results, limit, *arguments, **environment_more):
    """(tap, status): one process of pytest. What it says without results is a failure by the name of these."""
    file = out / f"{results}.xml"
    file.unlink(missing_ok=True)
    status, text, _ = run([sys.executable, "-X", "faulthandler", "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", ROOT, "-q", "-rs",
                           "--durations=15", "--junitxml", file, *arguments], out / f"{results}.log", limit, SLUICE_TEST_GPU="1",
                          **environment(site), **environment_more)
    if file.exists() and status in (0, 1, 5):
        return as_tap(file), 0
    lines = [line for line in text.splitlines() if "/pluggy/" not in line and "pytest/" not in line]  # of a crash: the test's
    said = "".join(f"# {line}\n" for line in lines[-8:])
    return (as_tap(file) if file.exists() else "") + f"not ok 0 - {results}.(the_program)\n# exit status {status}\n{said}", 1


def at_once(shares, jobs):
    """(tap, status, seconds) of calls of pytest(), so many at a time."""
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, shares)) as pool:
        done = list(pool.map(lambda job: job(), jobs))
    return "".join(tap for tap, _ in done), max((status for _, status in done), default=0), time.monotonic() - began


def test(site, out, run, shares, clip, have_gpu, cuda_link, alone):
    """(tap, status, seconds) of the tests of python/tests/gpu, and of those that have the fake driver where there is no GPU. Each file
    is a process of its own, `shares` at a time, the largest first. `alone`: those that count the GPU's memory, and no others."""
    if not importlib.util.find_spec("pytest"):
        return "ok 1 - python.all # SKIP pytest is not installed\n", 0, 0
    if not have_gpu:
        return "ok 1 - python.all # SKIP no GPU that nvidia-smi knows\n", 0, 0
    paths = [path for kind in ("streams*", "thread_streams", "gpu_*", "cuda_link_frames", "cuda_link_runtime")
             for path in TESTS.glob(f"test_{kind}.py")]
    with_torch = importlib.util.find_spec("torch") is not None
    paths += (TESTS / "gpu").glob("test_*.py") if with_torch else []
    paths = sorted((path for path in paths if (path.name in ALONE) == alone), key=lambda path: -path.stat().st_size)
    apart = ["-n", "1", "--max-worker-restart", "30"] if importlib.util.find_spec("xdist") else []  # a crash ends one test
    more = {"SLUICE_TEST_CLIP": str(clip.resolve())} if clip else {}
    if cuda_link:
        more["SLUICE_CUDA_LINK"] = str(cuda_link.resolve())

    def job(path):
        return lambda: pytest(site, out, run, f"python-{path.stem}", 400, *apart, path, **more)

    tap, status, seconds = at_once(1 if alone else shares, [job(path) for path in paths])
    return tap + ("" if with_torch else "ok 0 - python.gpu # SKIP torch is not installed\n"), status, seconds


def against(site, out, run, shares, cuda_link, runtime, number):
    """(tap, status, seconds) of Sluice against cuda-link's own package. `runtime` is the folder of tests/fake/runtime.c, where
    NVIDIA's is not installed. Its tests start processes and wait for most of their time, so there may be more of them at once."""
    more = {"SLUICE_CUDA_LINK": str(cuda_link.resolve()), "SLUICE_FAKE_RUNTIME": str(runtime)}
    _, text, _ = run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", ROOT, "-q", "--collect-only", TESTS / "upstream"],
                     out / "cuda-link-names.log", 60, SLUICE_TEST_GPU="1", **environment(site), **more)
    names = [line for line in text.splitlines() if "::" in line and not line.startswith((" ", "E", "="))]
    if not names:
        return text, 1, 0
    some = 2 * shares if shares > 1 else 1
    return at_once(some, [lambda own=names[turn::some], turn=turn: pytest(site, out, run, f"cuda-link-{number}-{turn}", 400, *own, **more)
                          for turn in range(some) if names[turn::some]])


def measure(site, out, run, quick, cuda_link):
    """Rows, and what is missing and failed, to be added to the figures of bench/gpu/run."""
    newest = next((each for each in cuda_link if not is_of_classes(each)), next(iter(cuda_link), None))
    options = [*(["--quick"] if quick else []), *(["--cuda-link", newest.resolve()] if newest else [])]
    figures = out / "python-bench.json"
    figures.unlink(missing_ok=True)
    command = f'exec "$@" >"{figures}"'  # its notes go to the log
    status, text, _ = run(["sh", "-c", command, "sh", sys.executable, ROOT / "python/bench_gpu.py", *options],
                          out / "python-bench.log", 150, **environment(site))
    try:
        return json.loads(figures.read_text())
    except (OSError, ValueError):
        why = (text.strip() or f"exit status {status}").splitlines()[-1]
        left = {"rows": "py_gpu_*", "why": why}
        return {"rows": [], "missing": [left], "failed": []} if status == NO_GPU else \
            {"rows": [], "missing": [], "failed": [{"bench": "python/bench_gpu.py", "params": {}, "why": why}]}
