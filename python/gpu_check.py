# SPDX-License-Identifier: MIT
"""The Python package in dev/gpu-check: built by Meson alone, tested by pytest on the machine's GPU, measured. No network."""
import contextlib
import importlib.util
import json
import math
import os
import pathlib
import sys
import xml.etree.ElementTree as tree

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "python/tests"
sys.path += [str(TESTS), str(ROOT / "dev")]
from gpucheck.plan import Task  # noqa: E402
from gpucheck.suite import Suite  # noqa: E402
from peer_runtime import is_of_classes  # noqa: E402

COUNTS = ("test_real_lives.py", "test_real_kernel_times.py")  # one by what memory is free, the other by times: what ran beside
PLAYS = ("test_real_examples.py",)  # in real time: two processes of it, beside the command's own; all it does is to start programs
# What needs no more than one GPU and takes long: where there are two, the second does that.
ANYWHERE = ("test_cuda_link_frames.py", "test_cuda_link_waits.py", "test_real_cuda_link.py")
TITLE, ALONE = "Python on the GPU", "Python, alone on the GPU"
RANK, AGAINST = 1, 4  # behind the tests in C; behind all
TAKES, AGAINST_TAKES = 15, 1000  # s: an unknown file, all tests against a package
AGAINST_FRAMES = "10000"  # each way, in each of the long tests
STARTS, SHARE = 4, 40  # s: what a process takes to begin; one that takes longer is dealt to several
NO_GPU = 77  # of bench_gpu.py


def build(folder, out, jobs, run):
    """The folder that PYTHONPATH must name, or a text that says what went wrong."""
    steps = [["ninja", "-C", folder, "-j", jobs],
             ["meson", "install", "-C", folder, "--no-rebuild", "--quiet", "--tags", "python-runtime", "--destdir", folder / "site"]]
    if not (folder / "build.ninja").exists():
        steps.insert(0, ["meson", "setup", folder, "--buildtype=release", "--prefix=/sluice", "-Dpython.platlibdir=lib/python",
                         "-Dpython=enabled", "-Dtests=disabled", "-Dexamples=disabled", "-Dfuzz=disabled"])
    for step in steps:
        status, text, _ = run(step, out / f"python-{'-'.join(step[:1 + (step[0] == 'meson')])}.log", 600)
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
    """(tap, status, seconds): one process of pytest. What it says without results is a failure by the name of these."""
    file = out / f"{results}.xml"
    file.unlink(missing_ok=True)
    command = [sys.executable, "-X", "faulthandler", "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", ROOT, "-q", "-rs",
               "--durations=15", "--junitxml", file, *arguments]
    status, text, seconds = run(command, out / f"{results}.log", limit, SLUICE_TEST_GPU="1", **environment(site), **environment_more)
    if file.exists() and status in (0, 1, 5):
        return as_tap(file), 0, seconds
    lines = [line for line in text.splitlines() if "/pluggy/" not in line and "pytest/" not in line]  # of a crash: the test's
    said = "".join(f"# {line}\n" for line in lines[-8:])
    return (as_tap(file) if file.exists() else "") + f"not ok 0 - {results}.(the_program)\n# exit status {status}\n{said}", 1, seconds


def times_of(results):
    """What each test took, by its file's name and its own."""
    return {f"{case.get('classname').rpartition('.')[2]}.py::{case.get('name')}": float(case.get("time"))
            for case in tree.parse(results).getroot().iter("testcase")} if results.exists() else {}


class Tests:
    """The tests of the package that lies in `site`; a text that says why there is none is a failure."""

    def __init__(self, site, out, run, options, gpus, times, parts):
        self.site, self.out, self.run, self.options, self.gpus, self.parts = site, out, run, options, gpus, parts
        self.times = times
        self.last = {"CUDA_VISIBLE_DEVICES": gpus[-1]["uuid"]} if len(gpus) > 1 else {}
        self.driver = {"SLUICE_CUDA_DRIVER": os.environ.get("SLUICE_CUDA_DRIVER", "libcuda.so.1")}  # saves the search for one
        self.apart = ["-n", "1", "--max-worker-restart", "30"] if importlib.util.find_spec("xdist") else []  # a crash ends one test

    def says(self, title, line):
        """A task that has this to say."""
        return [Task(title, 0, lambda: Suite(title, line, 0, 0), rank=RANK)]

    def why_none(self):
        """A line of TAP, or nothing."""
        if isinstance(self.site, str):
            return "not ok 1 - python.build\n" + "".join(f"# {line}\n" for line in self.site.splitlines())
        why = "pytest is not installed" if not importlib.util.find_spec("pytest") else \
            "no GPU that nvidia-smi knows" if not self.gpus else ""
        return f"ok 1 - python.all # SKIP {why}\n" if why else ""

    def files(self, wanted):
        if not importlib.util.find_spec("torch"):
            real = []
        else:
            real = (TESTS / "gpu").glob("test_*.py")
        paths = [path for kind in ("streams*", "thread_streams", "kernels*", "gpu_*", "live_guard", "cuda_link_frames", "cuda_link_runtime")
                 for path in TESTS.glob(f"test_{kind}.py")]
        return sorted(path for path in [*paths, *real] if wanted(path.name))

    def known(self, kind):
        """What tests of a kind took before, by their names."""
        return {key.removeprefix(f"{kind} "): value for key, value in self.times.items() if key.startswith(f"{kind} ")}

    def shares(self, seconds, longest):
        """[(seconds, "2/5" or "")] of what takes so long in one process: as many that none takes longer than it may."""
        count = max(1, math.ceil(seconds / longest))
        each = STARTS + seconds / count
        return [(each, f"{number}/{count}" if count > 1 else "") for number in range(1, count + 1)]

    def some(self, title, results, seconds, share, rank, kind, what, **environment_more):
        """A task that is a process of pytest, with its share of the tests."""
        apart = self.apart if kind == "python" and pathlib.Path(what).name not in PLAYS else []  # others are processes of their own

        def job():
            known = self.out / f"times-{kind}.json"
            more = {"SLUICE_TEST_SHARE": share, "SLUICE_TEST_TIMES": str(known)} if share else {}
            more |= {"SLUICE_TEST_APART": "1"} if apart else {}
            limit = 1000 if kind.startswith("against") else 400
            tap, status, took = pytest(self.site, self.out, self.run, results, limit, *apart, what, **self.driver, **more, **environment_more)
            suite = Suite(title, tap, status, took)
            suite.times = {f"{kind} {name}": each for name, each in times_of(self.out / f"{results}.xml").items()}
            return suite

        return Task(title, seconds, job, (results,), rank)

    def note_times(self, kind):
        """For the processes that deal tests by them."""
        (self.out / f"times-{kind}.json").write_text(json.dumps(self.known(kind)))

    def of_files(self, title, paths):
        known = self.known("python")
        self.note_times("python")
        more = {"SLUICE_GPU_FACTS": str(self.out / "facts.jsonl")}
        more |= {"SLUICE_TEST_CLIP": str(self.options.clip.resolve())} if self.options.clip else {}
        newest = next((each for each in self.options.cuda_link if not is_of_classes(each)), None)
        if newest:
            more["SLUICE_CUDA_LINK"] = str(newest.resolve())
        tasks = []
        for path in paths:
            here = self.last if path.name in ANYWHERE else {}
            takes = sum(value for name, value in known.items() if name.startswith(f"{path.name}::")) or TAKES
            longest = math.inf if path.name in COUNTS else takes / 2 if path.name in PLAYS else SHARE
            for seconds, share in self.shares(takes, longest):
                results = f"python-{path.stem}{share and '-'}{share.partition('/')[0]}"
                tasks.append(self.some(title, results, seconds, share, RANK, "python", path, **more, **here))
        return tasks

    # ---- the phases ----

    def beside(self):
        if "python-tests" not in self.parts:
            return []
        if self.why_none():
            return self.says(TITLE, self.why_none())
        without = [] if importlib.util.find_spec("torch") else self.says(TITLE, "ok 0 - python.gpu # SKIP torch is not installed\n")
        return self.of_files(TITLE, self.files(lambda name: name not in PLAYS + COUNTS)) + without

    def alone(self):
        return self.of_files(ALONE, self.files(lambda name: name in COUNTS)) if "python-tests" in self.parts and not self.why_none() else []

    def plays(self):
        return self.of_files(TITLE, self.files(lambda name: name in PLAYS)) if "python-tests" in self.parts and not self.why_none() else []

    def against(self, runtime):
        """Sluice against packages of cuda-link, all of them side by side, for their programs have names of their own. `runtime` is
        the folder of tests/fake/runtime.c, where NVIDIA's is not installed."""
        if "cuda-link" not in self.parts or not self.options.cuda_link:
            return []
        if self.why_none():
            return self.says("Python against cuda-link", self.why_none())
        tasks = []
        for number, link in enumerate(self.options.cuda_link):
            old = is_of_classes(link)
            title, kind = f"Python against cuda-link{' of before 1.5' if old else ''}", f"against{'-classes' if old else ''}"
            self.note_times(kind)
            for seconds, share in self.shares(sum(self.known(kind).values()) or AGAINST_TAKES, SHARE):
                tasks.append(self.some(title, f"cuda-link-{number}-{share.partition('/')[0]}", seconds, share, AGAINST, kind, TESTS / "upstream",
                                       SLUICE_CUDA_LINK=str(link.resolve()), SLUICE_FAKE_RUNTIME=str(runtime),
                                       SLUICE_CIPD_FRAMES=os.environ.get("SLUICE_CIPD_FRAMES") or AGAINST_FRAMES,
                                       **(self.last if number % 2 else {})))
        return tasks


def measure(site, out, run, quick, cuda_link, keep):
    """Rows, and what is missing and failed, to be added to the figures of bench/gpu/run. keep() gets what there is so far, now and then."""
    newest = next((each for each in cuda_link if not is_of_classes(each)), next(iter(cuda_link), None))
    figures = out / "python-bench.json"
    options = ["-o", figures, *(["--quick"] if quick else []), *(["--cuda-link", newest.resolve()] if newest else [])]
    figures.unlink(missing_ok=True)

    def found():
        with contextlib.suppress(OSError, ValueError):
            return json.loads(figures.read_text())
        return {"rows": [], "missing": [], "failed": [], "unfinished": True}

    status, text, _ = run([sys.executable, ROOT / "python/bench_gpu.py", *options], out / "python-bench.log", 150,
                          lambda: keep(found()), **environment(site))
    figures = found()
    if figures.pop("unfinished", False):
        why = (text.strip() or f"exit status {status}").splitlines()[-1]
        if status == NO_GPU:
            figures["missing"].append({"rows": "py_gpu_*", "why": why})
        else:
            figures["failed"].append({"bench": "python/bench_gpu.py", "params": {}, "why": why})
    return figures
