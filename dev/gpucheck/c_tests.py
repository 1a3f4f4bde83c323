# SPDX-License-Identifier: MIT
"""The tests in C, as tasks: each test of a program is a task of its own, which can run at the same time as others."""
import functools
import pathlib
import subprocess

from gpucheck import outside
from gpucheck.lists import (ALONE, ANYWHERE, BETWEEN, BETWEEN_LONG, CONTAINERS, CONTROL, KILLS, MEASURED, NOT_SANITIZED, NOT_UNDER_MPS,
                       SANITIZED, TOGETHER, why_not)
from gpucheck.mps import Service, phase_of
from gpucheck.plan import SPARE, Phase, Task
from gpucheck.suite import Suite, run

TARGETS = ["tests/gpu/gpu", "tests/fake/fake", "tests/fake/libfakecuda.so", "tests/fake/libfakestub.so",
           "tests/fake/cudart64_12.dll", "tests/storm/storm", "tests/multi/multi", "tests/docs/docs-gpu", "tests/unit/unit",
           "tools/sluice", "tests/tools/tools", "examples/example-filter", "examples/example-gpu-filter"]
GPU, OUTSIDE, WITHOUT = 0, SPARE, SPARE + 1  # ranks: on the GPU, the command and tools, without a GPU; Python's tests come between
MEMCHECK = "compute-sanitizer memcheck"
TAKES = {"gpu": 4.0, "between": 8.0, "fake-gpu": 0.3, "fake": 0.4, "sanitized": 5.0, "alone": 4.0, "mps": 2.0, "run": 6.0}  # s: of a test with no recorded duration
MPS_LIMIT, MPS_SCALE = 90, "0.25"  # s, since a server that hangs delays each test; scale of the long tests


def says(title, lines):
    """A task that only reports these lines."""
    return Task(title, 0, lambda: Suite(title, "\n".join(lines) + "\n", 0, 0))


class Tests:
    """The tests in a build folder, limited to `parts`."""

    def __init__(self, folder, out, facts, gpus, times, parts):
        self.folder, self.out, self.times, self.parts = folder, out, times, parts
        self.on_gpu = {"SLUICE_TEST_GPU": str(len(gpus) or 1), "SLUICE_GPU_FACTS": str(facts)}
        self.gpus, self.several = gpus, len(gpus) > 1
        self.last = {"CUDA_VISIBLE_DEVICES": gpus[-1]["uuid"]} if self.several else {}
        self.program = folder / "tests/gpu/gpu"
        self.names = self.names_of(self.program)

    @staticmethod
    @functools.cache
    def names_of(program):
        return subprocess.run([str(program), "--list"], capture_output=True, text=True).stdout.split()

    def each(self, kind, title, program, names, rank, **environment):
        """Returns a task for each of these tests."""
        log = self.out / f"{kind}.tap"
        pathlib.Path(log).unlink(missing_ok=True)

        def job(name):
            status, text, seconds = run([program, name], log, 320, append=True, **environment)
            return self.noted(kind, name, Suite(title, text, status, seconds))

        return [Task(title, self.times.get(f"{kind} {name}", TAKES[kind]), functools.partial(job, name), (name,), rank) for name in names]

    @staticmethod
    def noted(kind, name, suite):
        """Reports the exit status of a program as its test's."""
        if "(the program)" in suite.failed:
            suite.failed[name] = suite.failed.pop("(the program)")
        suite.times = {f"{kind} {name}": suite.seconds}
        return suite

    def whole(self, title, log, seconds, rank, limit, command, **environment):
        """A task that runs a whole program with its arguments."""
        def job():
            suite = Suite(title, *outputs(run(command, self.out / log, limit, **environment)))
            suite.times = {title: suite.seconds}
            return suite

        return Task(title, self.times.get(title, seconds), job, rank=rank)

    def plainly(self, title, name):
        """With one GPU most tests for two are skipped; no need to start compute-sanitizer for them, which takes seconds."""
        return Suite(title, *outputs(run([self.program, name], self.out / "plainly.tap", 200, append=True, **self.on_gpu)))

    def memchecked(self, title, log, names, rank, plainly=False, **environment):
        (self.out / log).unlink(missing_ok=True)

        def job(name):
            suite = plainly and self.plainly(title, name)
            if not suite or not suite.skipped:
                suite = outside.sanitize(self.folder, title, self.out / log, name, SLUICE_TEST_GPU=self.on_gpu["SLUICE_TEST_GPU"], **environment)
            return self.noted("sanitized", name, suite)

        usual = TAKES["gpu" if plainly else "sanitized"]
        return [Task(title, self.times.get(f"sanitized {name}", usual), functools.partial(job, name), (name,), rank) for name in names]

    def sanitized(self, all_of_them):
        """The tests of shared memory under compute-sanitizer, and all others that support it; with the reason for the rest."""
        if not outside.find_sanitizer():
            return [says(MEMCHECK, ["ok 1 - memcheck.all # SKIP there is no compute-sanitizer here"])]
        chosen = [name for name in self.names if SANITIZED.search(name)]
        tasks = [Task(MEMCHECK, 8, lambda: outside.control(self.folder, MEMCHECK, self.out / "sanitizer-control.log", CONTROL, **self.last),
                      ("memcheck.finds_what_a_kernel_breaks",), OUTSIDE)]
        tasks += self.memchecked(MEMCHECK, "sanitizer.log", [name for name in chosen if not TOGETHER.search(name)], OUTSIDE, **self.last)
        tasks += self.memchecked("the same with several GPUs", "sanitizer-several.log", filter(TOGETHER.search, chosen), OUTSIDE, not self.several)
        if all_of_them:
            others = [(name, why_not(name, NOT_SANITIZED)) for name in self.names if name not in chosen]
            title = "compute-sanitizer, all other tests"
            tasks += self.memchecked(title, "sanitizer-others.log", [name for name, why in others if not why], WITHOUT, **self.last)
            tasks.append(says(title, [f"ok 1 - {name} # SKIP {why}" for name, why in others if why]))
        return tasks

    def as_client(self, name):
        """A test under MPS, as a task for gpucheck.mps."""
        def job(environment):
            done = run([self.program, name], self.out / "mps.tap", MPS_LIMIT, append=True, SLUICE_TEST_SCALE=MPS_SCALE, **self.on_gpu, **environment)
            return self.noted("mps", name, Suite("", *outputs(done)))

        return Task("", self.times.get(f"mps {name}", TAKES["mps"]), job, (name,), GPU)

    # ---- the phases ----

    def measured(self):
        """Tests that measure calls, with nothing else running."""
        if "c-tests" not in self.parts:
            return []
        return [Task("sluice doctor, each GPU", 3, lambda: outside.doctor(self.folder, self.out)),
                self.whole("what calls cost on the GPU", "gpu-costs.tap", 4, GPU, 100,
                           [self.program, *filter(MEASURED.search, self.names)], **self.on_gpu)]

    def without_gpu(self):
        """Tests that need no GPU, which CI also runs."""
        fake = self.folder / "tests/fake/fake"
        return [*self.each("fake-gpu", "the same on the fake driver", self.program, self.names, WITHOUT,
                           SLUICE_CUDA_DRIVER=str(self.folder / "tests/fake/libfakecuda.so")),
                *self.each("fake", "failing calls on the fake driver", fake, self.names_of(fake), WITHOUT)]

    def beside(self, sanitizer, long):
        """Tests that may run at the same time as any but the measured ones."""
        tasks = self.on_the_gpu(long) if "c-tests" in self.parts else []
        if self.gpus and ("c-tests" in self.parts and sanitizer or "sanitizer" in self.parts):
            tasks += self.sanitized("sanitizer" in self.parts)
        return tasks

    def on_the_gpu(self, long):
        def moves(name):
            return self.several and ANYWHERE.search(name)

        names = [name for name in self.names if not MEASURED.search(name) and not ALONE.search(name)]
        tasks = self.each("gpu", "on the GPU", self.program, [name for name in names if not moves(name)], GPU, **self.on_gpu)
        tasks += self.each("gpu", "on the last GPU alone", self.program, filter(moves, names), GPU, **self.on_gpu, **self.last)
        storm, in_it = self.storm("storm.json")
        tasks += [self.whole("what docs/gpu.md says", "docs.tap", 20, GPU, 250, [self.folder / "tests/docs/docs-gpu"], SLUICE_TEST_GPU="1"),
                  self.whole("kill storm on the GPU", "storm.tap", 40, OUTSIDE, 250, storm, **in_it)]
        tasks += self.without_gpu() if long or not self.gpus else []
        if not self.gpus:
            return [*tasks, says(outside.COMMANDS, ["ok 1 - command.all # SKIP no GPU that nvidia-smi knows"])]
        return [*tasks, *self.between(long), *self.kernels_by_command(),
                self.whole("between containers", "multi.tap", 10, OUTSIDE, 120, [self.folder / "tests/multi/multi", *CONTAINERS],
                           SLUICE_TEST_DEVICE="cuda:0"),
                Task(outside.COMMANDS, 20, lambda: outside.frames(self.folder, self.out), ("play_and_snap", "bridge", "top"), OUTSIDE),
                Task("ranges in Nsight Systems", 20, lambda: outside.nsight(self.folder, self.out), rank=OUTSIDE)]

    def between(self, long):
        """Tests of several processes, with channels on the GPU."""
        program = self.folder / "tests/multi/multi"
        names = [name for name in self.names_of(program) if BETWEEN.search(name) or long and BETWEEN_LONG.search(name)]
        return self.each("between", "between processes", program, names, GPU, SLUICE_TEST_DEVICE="cuda:0")

    def kernels_by_command(self):
        """Tests of `sluice run` on the GPU."""
        program = self.folder / "tests/tools/tools"
        names = [name for name in self.names_of(program) if name.startswith("run.") and name.endswith("_on_a_gpu")]
        return self.each("run", "sluice run", program, names, GPU, SLUICE_TEST_DEVICE="cuda:0", SLUICE_COMMAND=str(self.folder / "tools/sluice"))

    def storm(self, record):
        """Returns the program and its environment."""
        return [self.folder / "tests/storm/storm", "storm.*"], {
            "SLUICE_TEST_GPU": "1", "SLUICE_STORM_DEVICE": "cuda:0", "SLUICE_STORM_KILLS": "60", "SLUICE_STORM_RECORD": str(self.out / record)}

    def alone(self, long):
        """Tests that need all of the GPU's memory or time."""
        if "c-tests" not in self.parts:
            return []
        tasks = self.each("alone", "with the GPU to itself", self.program, filter(ALONE.search, self.names), GPU, **self.on_gpu)
        if long:
            tasks.append(self.whole("a minute at full speed", "whole.tap", 75, GPU, 120, [self.program, "torn_frames.*"],
                                    SLUICE_WHOLE_SECONDS="60", **self.on_gpu))
        return tasks

    def plays(self):
        """Tests in real time, which need an idle machine."""
        def task(name, seconds, *arguments):
            return Task(outside.COMMANDS, seconds, lambda: outside.plays(self.folder, self.out, name, *arguments), (name,))

        if not self.gpus or "c-tests" not in self.parts:
            return []
        return [task("demo", 12, "--seconds", "12", "--out", self.out / "demo"), task("bench", 8, "--quick")]

    def under_mps(self, workers):
        """Phases under MPS: tests that kill no process at the same time, the others one after the other. They come last, because a
        server that hangs may block the GPU."""
        if "mps" not in self.parts or not self.gpus:
            return []
        (self.out / "mps.tap").unlink(missing_ok=True)
        names = [(name, why_not(name, NOT_UNDER_MPS)) for name in self.names]
        kills = [self.as_client(name) for name, why in names if not why and KILLS.search(name)]
        storm, in_it = self.storm("storm-mps.json")
        kills.append(Task("", 40, lambda environment: Suite("", *outputs(run(storm, self.out / "storm-mps.tap", 250, **environment, **in_it))),
                          ("storm.kill_storm",), OUTSIDE))
        service = Service(self.folder / "tools/sluice", self.out / "mps-doctor.log")
        phases = [phase_of("under MPS", min(workers, 6), service, [self.as_client(name) for name, why in names if not why and not KILLS.search(name)], False),
                  phase_of("killed under MPS", 1, service, kills, True)]
        phases[0].tasks.append(says("under MPS", [f"ok 1 - {name} # SKIP {why}" for name, why in names if why]))
        return phases


def outputs(done):
    """Converts the result of run() to the arguments of Suite()."""
    status, text, seconds = done
    return text, status, seconds


def phases(tests, python, options):
    """The phases in order: measured tests, tests that may run at the same time, tests that run alone. The benches follow."""
    every = [Phase("measured", 1, tests.measured() if tests else []),
             Phase("side by side", options.shares, (tests.beside(not options.no_sanitizer, options.long) if tests else []) + python.beside()),
             Phase("one after the other", 1, (tests.alone(options.long) if tests else []) + python.alone()),
             Phase("in real time", 4, (tests.plays() if tests else []) + python.plays())]
    return [phase for phase in every if phase.tasks]


def last_phases(tests, python, options):
    """The phases after the benches."""
    every = [*(tests.under_mps(options.shares) if tests else []), Phase("against cuda-link", options.shares, python.against(tests_runtime(options)))]
    return [phase for phase in every if phase.tasks]


def tests_runtime(options):
    """The folder of tests/fake/runtime.c."""
    return options.build.resolve() / "tests/fake"
