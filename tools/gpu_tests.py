# SPDX-License-Identifier: MIT
"""The tests in C that tools/gpu-check runs, as tasks: each test of a program is one, and can run beside any other."""
import functools
import pathlib
import re
import shutil
import subprocess

import gpu_outside as outside
from gpu_plan import SPARE, Phase, Task
from gpu_suite import Suite, run

TARGETS = ["tests/gpu/gpu", "tests/fake/fake", "tests/fake/libfakecuda.so", "tests/fake/libfakeshell.so",
           "tests/fake/cudart64_12.dll", "tests/storm/storm", "tests/multi/multi", "tests/docs/docs-gpu", "tests/unit/unit",
           "tools/sluice", "examples/example-filter", "examples/example-gpu-filter"]
# What must be alone to be measured, and what needs no more than one GPU: where there are two, the second does that
# while the first does the rest.
MEASURED = re.compile(r"^(costs|copy_costs|facts)\.")
ANYWHERE = re.compile(r"^(ahead|channel|crash|death|fallback|guards|held_back|inside|shared|words"
                      r"|cipd_(ahead|capture|channel|hurry|long|mark|reader|rules))\.")
TOGETHER = re.compile(r"^(several|staged|copy)\.")  # needs more than one, as far as it is sanitized
# What takes most of the memory, and what tells how long a death takes.
ALONE = re.compile(r"^death\.(a_writer_of_most_of_the_memory|a_killed_reader_gives_its_slots|a_killed_writers_ready_frames)")
# Not those with a process that is no user, to whom the driver is shut, or with a channel in the test's own process,
# where the driver's threads stay.
CONTAINERS = [f"containers.{name}*" for name in ("frames", "a_reader", "between", "different", "times", "nobody_looks")]
# What compute-sanitizer looks at: kernels and copies on memory and words that are shared. (Not the tests that
# break a context on purpose.)
SANITIZED = re.compile(r"^(memory\.(made|mapped)|sync\.|channel\.|send_fetch\.|(several|staged)\.|copy\.copies_(in|of|between)"
                       r"|ahead\.(the_stream|a_frame_that|three)|graph\.(frames|rows|formats)|whole\."
                       r"|cipd_channel\.cipd_(frames_|formats|slot_counts|a_writer_is_read|sends_that_come|sends_on)"
                       r"|cipd_ahead\.cipd_a_stream_may|cipd_mark\.cipd_(a_copy_that_ended_in_time|copies_of_a_reader)"
                       r"|cipd_reader\.(two_readers|cipd_a_frame_of_a_session))")
GPU, OUTSIDE, WITHOUT = 0, 2, SPARE  # ranks: on the GPU, what looks from outside, what needs none; Python's tests come between
TAKES = {"gpu": 0.6, "fake-gpu": 0.3, "fake": 0.4, "sanitized": 3.0, "alone": 4.0}  # s: a test that nobody knows


class Tests:
    """The tests of what was built in a folder."""

    def __init__(self, folder, out, facts, gpus, times):
        self.folder, self.out, self.times = folder, out, times
        self.on_gpu = {"SLUICE_TEST_GPU": "1", "SLUICE_GPU_FACTS": str(facts)}
        self.gpus, self.several = gpus, len(gpus) > 1
        self.last = {"CUDA_VISIBLE_DEVICES": gpus[-1]["uuid"]} if self.several else {}
        self.program = folder / "tests/gpu/gpu"
        self.names = self.names_of(self.program)

    @staticmethod
    @functools.cache
    def names_of(program):
        return subprocess.run([str(program), "--list"], capture_output=True, text=True).stdout.split()

    def each(self, kind, title, program, names, rank, **environment):
        """A task for each of these tests."""
        log = self.out / f"{kind}.tap"
        pathlib.Path(log).unlink(missing_ok=True)

        def job(name):
            status, text, seconds = run([program, name], log, 320, append=True, **environment)
            return self.noted(kind, name, Suite(title, text, status, seconds))

        return [Task(title, self.times.get(f"{kind} {name}", TAKES[kind]), functools.partial(job, name), (name,), rank) for name in names]

    @staticmethod
    def noted(kind, name, suite):
        """What happened to a program happened to its test."""
        if "(the program)" in suite.failed:
            suite.failed[name] = suite.failed.pop("(the program)")
        suite.times = {f"{kind} {name}": suite.seconds}
        return suite

    def whole(self, title, log, seconds, rank, limit, command, **environment):
        """A task that is a program, with all that it is told to do."""
        def job():
            suite = Suite(title, *outputs(run(command, self.out / log, limit, **environment)))
            suite.times = {title: suite.seconds}
            return suite

        return Task(title, self.times.get(title, seconds), job, rank=rank)

    def plainly(self, title, name):
        """Most that want two GPUs skip themselves where there is one: that takes no sanitizer, which needs seconds for it."""
        status, text, seconds = run([self.program, name], self.out / "plainly.tap", 200, append=True, SLUICE_TEST_GPU="1")
        return Suite(title, text, status, seconds)

    def sanitized(self):
        if not shutil.which("compute-sanitizer"):
            return []
        tasks = []
        for title, log, both, environment in (("compute-sanitizer memcheck", "sanitizer.log", False, self.last),
                                              ("the same with several GPUs", "sanitizer-several.log", True, {})):
            (self.out / log).unlink(missing_ok=True)

            def job(name, title=title, log=log, environment=environment, at_first=both and not self.several):
                suite = at_first and self.plainly(title, name)
                if not suite or not suite.skipped:
                    suite = outside.sanitize(self.folder, title, self.out / log, name, **environment)
                return self.noted("sanitized", name, suite)

            usual = TAKES["sanitized"] if self.several or not both else TAKES["gpu"]  # most want two
            tasks += [Task(title, self.times.get(f"sanitized {name}", usual), functools.partial(job, name), (name,), OUTSIDE)
                      for name in self.names if SANITIZED.search(name) and bool(TOGETHER.search(name)) == both]
        return tasks

    # ---- the phases ----

    def measured(self):
        """What calls cost: with nothing beside."""
        return [Task("sluice doctor, each GPU", 3, lambda: outside.doctor(self.folder, self.out)),
                self.whole("what calls cost on the GPU", "gpu-costs.tap", 4, GPU, 100,
                           [self.program, *filter(MEASURED.search, self.names)], **self.on_gpu)]

    def without_gpu(self):
        """CI runs these, too."""
        fake = self.folder / "tests/fake/fake"
        return [*self.each("fake-gpu", "the same on the fake driver", self.program, self.names, WITHOUT,
                           SLUICE_CUDA_DRIVER=str(self.folder / "tests/fake/libfakecuda.so")),
                *self.each("fake", "failing calls on the fake driver", fake, self.names_of(fake), WITHOUT)]

    def beside(self, sanitizer, long):
        """What may run beside anything but itself being measured."""
        def moves(name):
            return self.several and ANYWHERE.search(name)

        names = [name for name in self.names if not MEASURED.search(name) and not ALONE.search(name)]
        tasks = self.each("gpu", "on the GPU", self.program, [name for name in names if not moves(name)], GPU, **self.on_gpu)
        tasks += self.each("gpu", "on the last GPU alone", self.program, filter(moves, names), GPU, **self.on_gpu, **self.last)
        tasks += [self.whole("what docs/gpu.md says", "docs.tap", 20, GPU, 250, [self.folder / "tests/docs/docs-gpu"], SLUICE_TEST_GPU="1"),
                  self.whole("kill storm on the GPU", "storm.tap", 40, OUTSIDE, 250, [self.folder / "tests/storm/storm", "storm.*"],
                             SLUICE_TEST_GPU="1", SLUICE_STORM_DEVICE="cuda:0", SLUICE_STORM_KILLS="60",
                             SLUICE_STORM_RECORD=str(self.out / "storm.json"))]
        tasks += self.without_gpu() if long or not self.gpus else []
        if self.gpus:
            tasks += [self.whole("between containers", "multi.tap", 10, OUTSIDE, 120, [self.folder / "tests/multi/multi", *CONTAINERS],
                                 SLUICE_TEST_DEVICE="cuda:0"),
                      Task(outside.COMMANDS, 20, lambda: outside.frames(self.folder, self.out), ("play_and_snap", "bridge"), OUTSIDE),
                      Task("ranges in Nsight Systems", 20, lambda: outside.nsight(self.folder, self.out), rank=OUTSIDE)]
            return tasks + (self.sanitized() if sanitizer else [])
        return [*tasks, Task(outside.COMMANDS, 0, lambda: Suite(outside.COMMANDS, "ok 1 - command.all # SKIP no GPU that nvidia-smi knows\n", 0, 0))]

    def alone(self, long):
        """What has the GPU's memory to itself, or all of its time."""
        tasks = self.each("alone", "with the GPU to itself", self.program, filter(ALONE.search, self.names), GPU, **self.on_gpu)
        if long:
            tasks.append(self.whole("a minute at full speed", "whole.tap", 75, GPU, 120, [self.program, "whole.*"],
                                    SLUICE_WHOLE_SECONDS="60", **self.on_gpu))
        return tasks

    def plays(self):
        """What plays in real time, while nothing is loaded."""
        def job():
            suite = outside.plays(self.folder, self.out, "demo", "--seconds", "12", "--out", self.out / "demo")
            more = outside.plays(self.folder, self.out, "bench", "--quick")
            suite.passed, suite.seconds = suite.passed + more.passed, suite.seconds + more.seconds
            suite.failed.update(more.failed)
            return suite

        return [Task(outside.COMMANDS, 20, job, ("demo", "bench"))] if self.gpus else []


def outputs(done):
    """Of run(), as Suite() wants it."""
    status, text, seconds = done
    return text, status, seconds


def phases(tests, python, options):
    """In the order in which they come: what is measured, what may run beside other things, what is alone. The benches follow."""
    every = [Phase("measured", 1, tests.measured() if tests else []),
             Phase("side by side", options.shares, (tests.beside(not options.no_sanitizer, options.long) if tests else []) + python.beside()),
             Phase("one after the other", 1, (tests.alone(options.long) if tests else []) + python.alone()),
             Phase("in real time", 3, (tests.plays() if tests else []) + python.plays())]
    return [phase for phase in every if phase.tasks]
