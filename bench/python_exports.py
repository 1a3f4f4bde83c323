# SPDX-License-Identifier: MIT
"""For python/bench_gpu.py: an asynchronous export by a program that stays awake, like one that computes its frames. Its caches and its
CPU's clock are as its own work left them; python_links.py measures programs that sleep.

A reader in another process takes each frame and gives the GPU no work. The GPU is idle at each call, because the exporter waits for its
own copy outside of the measured time."""
import importlib
import os
import time
import traceback

from python_kit import TIMEOUT, PAUSE, note, now, stay_awake, with_goal
from python_link_kit import LINK_BYTES, LINK_SHAPE, answer, exporter_of
from rows import row

STREAMS = [("default", 4000), ("own", None)]  # the stream that a program passes, and the goal, ns: bench/README.md
ASKED, DONE, WORDS = range(3)
OVER = -1
WARM = 10


def wait_for(is_so, each_turn=lambda: None):
    until = time.monotonic() + TIMEOUT
    while not is_so():
        if time.monotonic() > until:
            raise RuntimeError("the other process does not answer")
        each_turn()


def export_frames(package, name, stream, words, said):
    """The measured process: spins until a word requests a frame, then exports one."""
    try:
        export_each(importlib.import_module(package), name, stream, words, said)
    except Exception:
        said.put(RuntimeError(traceback.format_exc()[-1000:]))


def export_each(link, name, stream, words, said):
    os.environ["CUDALINK_EXPORT_SYNC"] = "0"  # for the classes before 1.5; later ones have it as their default
    runtime = link.get_cuda_runtime()
    source = runtime.malloc(LINK_BYTES).value
    handle = runtime.create_stream().value if stream == "own" else 0
    exporter = exporter_of(link, name, LINK_SHAPE, "float32")
    took = []
    said.put("open")
    while True:
        wait_for(lambda: words[ASKED] != words[DONE])
        if words[ASKED] == OVER:
            break
        stay_awake(PAUSE)
        before = now()
        exporter.export(source, LINK_BYTES, handle)
        took.append(now() - before)
        runtime.synchronize()
        words[DONE] = words[ASKED]
    exporter.close()
    said.put(took)


def take_frames(reader, rounds, words, said):
    def is_done():
        if not said.empty():
            answer(said)
        return words[DONE] == words[ASKED]

    for number in range(1, WARM + rounds + 1):
        words[ASKED] = number
        wait_for(is_done, lambda: time.sleep(PAUSE / 1e9))
        with reader.next(timeout=TIMEOUT):
            pass


def measure_exports(context, package, label, rounds):
    """Rows."""
    import sluice

    importlib.import_module(package)
    rows = []
    for stream, goal in STREAMS:
        note(f"{label}, export_awake, stream: {stream}")
        name, words, said = f"bench_export_{os.getpid()}_{label[:1]}_{stream}", context.RawArray("q", WORDS), context.Queue()
        process = context.Process(target=export_frames, args=(package, name, stream, words, said), daemon=True)
        process.start()
        try:
            answer(said)
            with sluice.Reader(f"cipd:{name}", device="cuda:0") as reader:
                take_frames(reader, rounds, words, said)
        finally:
            words[ASKED] = OVER
        took = answer(said)
        process.join(TIMEOUT)
        params = {"way": label, "bytes": LINK_BYTES, "stream": stream}
        rows.append(with_goal(row("py_gpu_link_export_awake", params, took[WARM:]), goal=goal if package != "cuda_link" else None))
    return rows
