# SPDX-License-Identifier: MIT
"""The Python package in tools/gpu-check: built by Meson alone, tested by pytest on the machine's GPU, measured. No network."""
import importlib.util
import json
import os
import pathlib
import sys
import xml.etree.ElementTree as tree

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "python/tests"
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


def test(site, out, run, clip, have_gpu, cuda_link):
    """(tap, status, seconds) of the tests of python/tests/gpu, and of those that have the fake driver where there is no GPU."""
    if not importlib.util.find_spec("pytest"):
        return "ok 1 - python.all # SKIP pytest is not installed\n", 0, 0
    if not have_gpu:
        return "ok 1 - python.all # SKIP no GPU that nvidia-smi knows\n", 0, 0
    results = out / "python.xml"
    results.unlink(missing_ok=True)
    paths = [path for kind in ("streams*", "thread_streams", "gpu_*", "cuda_link_frames") for path in sorted(TESTS.glob(f"test_{kind}.py"))]
    with_torch = importlib.util.find_spec("torch") is not None
    paths += [TESTS / "gpu"] if with_torch else []
    apart = ["-n", "1", "--max-worker-restart", "30"] if importlib.util.find_spec("xdist") else []  # a crash ends one test
    more = {"SLUICE_TEST_CLIP": str(clip.resolve())} if clip else {}
    if cuda_link:
        more["SLUICE_CUDA_LINK"] = str(cuda_link.resolve())
    status, text, seconds = run([sys.executable, "-X", "faulthandler", "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", ROOT,
                                 "-q", "-rs", "--durations=15", "--junitxml", results, *apart, *paths],
                                out / "python.log", 400, SLUICE_TEST_GPU="1", **environment(site), **more)
    tap = as_tap(results) if results.exists() else text
    return tap if with_torch else f"{tap}ok 0 - python.gpu # SKIP torch is not installed\n", status, seconds


def against(site, out, run, cuda_link, runtime):
    """(tap, status, seconds) of Sluice against cuda-link's own package. `runtime` is the folder of tests/fake/runtime.c, where
    NVIDIA's is not installed."""
    results = out / "cuda-link.xml"
    results.unlink(missing_ok=True)
    together = ["-n", "4"] if importlib.util.find_spec("xdist") else []  # they start processes for most of their time
    status, text, seconds = run([sys.executable, "-X", "faulthandler", "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", ROOT,
                                 "-q", "-rs", "--durations=5", "--junitxml", results, *together, TESTS / "upstream"], out / "cuda-link.log", 400,
                                SLUICE_TEST_GPU="1", SLUICE_CUDA_LINK=str(cuda_link.resolve()), SLUICE_FAKE_RUNTIME=str(runtime),
                                **environment(site))
    return as_tap(results) if results.exists() else text, status, seconds


def measure(site, out, run, quick, cuda_link):
    """Rows, and what is missing and failed, to be added to the figures of bench/gpu/run."""
    options = [*(["--quick"] if quick else []), *(["--cuda-link", cuda_link.resolve()] if cuda_link else [])]
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
