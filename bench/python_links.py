# SPDX-License-Identifier: MIT
"""For python/bench_gpu.py: calls of sluice.cuda_link, and of cuda-link if it is installed, on frames that another process has exported.
Calls that need no PyTorch are measured without it, too."""
import importlib
import importlib.util
import multiprocessing
import os
import statistics
import time
import traceback

from python_exports import measure_exports
from python_kit import DEVICE, TIMEOUT, PAUSE, note, now, stay_awake, with_goal
from python_link_kit import LINK_BYTES, LINK_SHAPE, answer, exporter_of, importer_of
from rows import row

BLOCKS = {"export_sync": True}
LINK_CALLS = [  # row, method, frames, the importer's policy, goal in ns; the row of what was exported meanwhile, that policy; the pause
    ("get_frame", "get_frame", "few", {}, 3000, "export_blocking", BLOCKS, None),
    ("get_frame_cupy", "get_frame_cupy", "few", {}, None, None, BLOCKS, None),
    ("get_frame_numpy", "get_frame_numpy", "copied", {}, None, "export", None, None),
    ("get_frame_numpy_pipelined", "get_frame_numpy", "copied", {"d2h_pipelined": True}, None, None, BLOCKS, None),
    ("get_frame_slept", "get_frame", "few", {}, None, None, BLOCKS, "slept"),
    ("get_frame_washed", "get_frame", "few", {}, None, None, BLOCKS, "washed"),
    ("get_frame_numpy_slept", "get_frame_numpy", "cold", {}, None, "export_slept", None, "slept"),
    ("get_frame_numpy_washed", "get_frame_numpy", "cold", {}, None, "export_washed", None, "washed"),
]
FRAME_TIME = 1 / 60  # s that a program sleeps between two frames
WASH = 256 << 20  # bytes: more than the caches of a CPU hold
MOST_PAUSES = 40  # calls of a row with a pause: each takes a tenth of a second
WARM = 10  # calls that are not counted, without a pause
NEEDS = {"get_frame": "torch", "get_frame_cupy": "cupy", "get_frame_numpy": "numpy"}
WORK = 0.002  # s that a program of pipelined copies works on each frame


def resting(pause):
    """What a process does before each call. None: it stays awake; "slept": it sleeps for the time of a frame, like a program with 60 frames
    a second; "washed": it then also reads enough memory to empty all caches, as other programs would."""
    if pause is None:
        return lambda: stay_awake(PAUSE)
    if pause == "slept":
        return lambda: time.sleep(FRAME_TIME)
    wash = b"\1" * WASH  # written, so that it has pages of its own

    def rest():
        time.sleep(FRAME_TIME)
        assert wash.find(b"\0") < 0
    return rest


def export_frames(package, name, policy, pause, turns, done):
    """The other process: exports a frame on request, and answers once the frame is ready."""
    try:
        export_each(importlib.import_module(package), name, policy, pause and resting(pause), turns, done)
    except Exception:
        done.put(RuntimeError(traceback.format_exc()[-1000:]))


def export_each(link, name, policy, rest, turns, done):
    os.environ["CUDALINK_EXPORT_SYNC"] = "1" if policy else "0"  # for the classes before 1.5
    runtime = link.get_cuda_runtime()
    source = runtime.malloc(LINK_BYTES).value
    exporter = exporter_of(link, name, LINK_SHAPE, "float32", policy)
    took = []
    done.put("open")
    while turns.get():
        if rest and len(took) >= WARM:
            rest()
        before = now()
        exporter.export(source, LINK_BYTES, 0)
        took.append(now() - before)
        runtime.synchronize()
        done.put("exported")
    exporter.close()
    done.put(took)


def measure_pinned(torch, rounds):
    """The floor of get_frame_numpy(): the same bytes from the GPU into pinned memory."""
    copy = copy_by_torch(torch) if torch else copy_by_driver()
    samples = []
    for _ in range(rounds + 10):
        before = now()
        copy()
        samples.append(now() - before)
    return samples[10:]


def copy_by_torch(torch):
    source = torch.zeros(LINK_SHAPE, dtype=torch.float32, device=DEVICE)
    target = torch.empty(LINK_SHAPE, dtype=torch.float32, pin_memory=True)

    def copy():
        target.copy_(source, non_blocking=True)
        torch.cuda.current_stream().synchronize()
    torch.cuda.synchronize()
    return copy


def copy_by_driver():
    runtime = importlib.import_module("sluice.cuda_link").get_cuda_runtime()
    source, target, stream = runtime.malloc(LINK_BYTES), runtime.malloc_host_alloc(LINK_BYTES), runtime.create_stream()

    def copy():
        runtime.memcpy_async(target, source, LINK_BYTES, 2, stream)
        runtime.stream_synchronize(stream)
    return copy


def take_frames(importer, method, rounds, turns, done, works, pause):
    """Samples of a call with a frame ready."""
    (call, frame_of), samples, rest, awake = importer.caller(method), [], resting(pause), resting(None)
    for number in range(-WARM, rounds):
        turns.put(1)
        answer(done)
        rest() if number >= 0 else awake()
        until = time.monotonic() + TIMEOUT
        while True:
            before = now()
            result = call()
            after = now()
            if frame_of(result) is not None or (works and number < 0):
                break
            if time.monotonic() > until:
                raise RuntimeError("no frame came")
        if number >= 0:
            samples.append(after - before)
        if works:
            stay_awake(int(WORK * 1e9))
    return samples


def measure_link(context, package, label, rounds, pinned, has):
    """The rows. `has` names the frameworks that can be used here."""
    link = importlib.import_module(package)
    ours, params = label == "sluice.cuda_link", {"way": label, "bytes": LINK_BYTES}
    rows = []
    for number, (name, method, kind, policy, goal, exporting, export_policy, pause) in enumerate(LINK_CALLS):
        if not has(NEEDS[method]) or (policy and not hasattr(link, "Importer")):
            continue
        note(f"{label}, {name}")
        channel, turns, done = f"bench_link_{os.getpid()}_{label[:1]}{number}", context.Queue(), context.Queue()
        process = context.Process(target=export_frames, args=(package, channel, export_policy, pause, turns, done),
                                  daemon=True)
        process.start()
        importer = None
        try:
            answer(done)
            importer = importer_of(link, channel, policy)
            most = min(rounds, MOST_PAUSES) if pause else rounds
            samples = take_frames(importer, method, most, turns, done, bool(policy), pause)
        finally:
            if importer:
                importer.close()
            turns.put(0)
        exported = answer(done)
        process.join(TIMEOUT)
        limit = pinned if kind == "copied" else None
        goal = (int(pinned / 0.97) if kind == "copied" and not policy else goal) if ours else None
        rows.append(with_goal(row(f"py_gpu_link_{name}", params, samples), limit, goal))
        if exporting:
            rows.append(row(f"py_gpu_link_{exporting}", params, exported[WARM:]))
    return rows


def links(torch, rounds, report):
    """With `torch` None it uses the GPU that the driver sees."""
    context = multiprocessing.get_context("spawn")
    pinned = measure_pinned(torch, rounds)
    report["rows"].append(row("py_gpu_floor_pinned_copy", {"bytes": LINK_BYTES}, pinned))

    def has(name):
        return importlib.util.find_spec(name) is not None and (torch is not None or name == "numpy")

    for package, label in (("sluice.cuda_link", "sluice.cuda_link"), ("cuda_link", "cuda-link")):
        try:
            report["rows"] += measure_link(context, package, label, rounds, statistics.median(pinned), has)
            report["rows"] += measure_exports(context, package, label, rounds)
        except ImportError as error:
            report["missing"].append({"rows": label, "why": str(error)})
        except Exception as error:
            note(f"FAILED {error}")
            why = {"bench": "py_gpu_link", "params": {"way": label}, "why": str(error)[-1000:]}
            if package == "cuda_link":  # the other package failed, not ours
                report["missing"].append({"rows": label, "why": why["why"]})
            else:
                report["failed"].append(why)
