# SPDX-License-Identifier: MIT
"""Of python/bench_gpu.py: calls of sluice.cuda_link, and of cuda-link where it is, on frames that another process has exported."""
import importlib
import importlib.util
import os
import statistics
import time
import traceback

from python_kit import DEVICE, PATIENCE, PAUSE, note, now, stay_awake, with_goal
from rows import row

LINK_SHAPE = (1080, 1920, 4)  # float32: 31.6 MiB
LINK_BYTES = LINK_SHAPE[0] * LINK_SHAPE[1] * LINK_SHAPE[2] * 4
LINK_CALLS = [  # row, method, frames, the policy's, goal in ns
    ("get_frame", "get_frame", "few", {}, 3000),
    ("get_frame_cupy", "get_frame_cupy", "few", {}, None),
    ("get_frame_numpy", "get_frame_numpy", "copied", {}, None),
    ("get_frame_numpy_pipelined", "get_frame_numpy", "copied", {"d2h_pipelined": True}, None),
]
WORK = 0.002  # s that a program of pipelined copies works on each frame


def export_frames(package, name, turns, done):
    """The other process: a frame whenever it is asked for one, ready before it says so."""
    try:
        export_each(importlib.import_module(package), name, turns, done)
    except Exception:
        done.put(RuntimeError(traceback.format_exc()[-1000:]))


def export_each(link, name, turns, done):
    import torch

    source = torch.zeros(LINK_SHAPE, dtype=torch.float32, device=DEVICE)
    size = source.numel() * 4
    exporter = link.Exporter.open(link.FrameSpec(name, *LINK_SHAPE, "float32"), policy=link.ExportPolicy(export_sync=True))
    took = []
    done.put("open")
    while turns.get():
        before = now()
        outcome = exporter.export(link.GpuFrame(source.data_ptr(), size, torch.cuda.current_stream().cuda_stream))
        took.append(now() - before)
        torch.cuda.synchronize()
        done.put(outcome.name)
    exporter.close()
    done.put(took)


def answer(done):
    """Of the other process."""
    told = done.get(timeout=PATIENCE)
    if isinstance(told, Exception):
        raise told
    return told


def measure_pinned(torch, rounds):
    """The floor of get_frame_numpy(): the same bytes from the GPU into pinned memory."""
    source = torch.zeros(LINK_SHAPE, dtype=torch.float32, device=DEVICE)
    target = torch.empty(LINK_SHAPE, dtype=torch.float32, pin_memory=True)
    samples = []
    for _ in range(rounds + 10):
        torch.cuda.synchronize()
        before = now()
        target.copy_(source, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        samples.append(now() - before)
    return samples[10:]


def take_frames(link, importer, method, rounds, turns, done, works):
    """Samples of a call that finds a frame waiting."""
    call, samples = getattr(importer, method), []
    for number in range(-10, rounds):
        turns.put(1)
        if answer(done) != "PUBLISHED":
            raise RuntimeError("a frame was not exported")
        stay_awake(PAUSE)
        until = time.monotonic() + PATIENCE
        while True:
            before = now()
            result = call()
            after = now()
            if result.outcome is link.ImportOutcome.NEW_FRAME or (works and number < 0):
                break
            if time.monotonic() > until:
                raise RuntimeError(f"no frame came: {result.outcome}")
        if number >= 0:
            samples.append(after - before)
        if works:
            stay_awake(int(WORK * 1e9))
    return samples


def measure_link(context, package, label, rounds, pinned):
    link = importlib.import_module(package)
    rows = []
    for number, (name, method, kind, policy, goal) in enumerate(LINK_CALLS):
        if method.endswith("cupy") and not importlib.util.find_spec("cupy"):
            continue
        note(f"{label}, {name}")
        channel, turns, done = f"bench_link_{os.getpid()}_{label[:1]}{number}", context.Queue(), context.Queue()
        process = context.Process(target=export_frames, args=(package, channel, turns, done), daemon=True)
        process.start()
        try:
            if answer(done) != "open":
                raise RuntimeError("the exporter does not open")
            with link.Importer.open(link.ImportSpec(channel), policy=link.ImportPolicy(**policy)) as importer:
                samples = take_frames(link, importer, method, rounds, turns, done, bool(policy))
        finally:
            turns.put(0)
        exported = answer(done)
        process.join(PATIENCE)
        ours = label == "sluice.cuda_link"
        limit = pinned if kind == "copied" else None
        goal = (int(pinned / 0.97) if kind == "copied" and not policy else goal) if ours else None
        rows.append(with_goal(row(f"py_gpu_link_{name}", {"way": label, "bytes": LINK_BYTES}, samples), limit, goal))
        if number == 0:
            rows.append(row("py_gpu_link_export_blocking", {"way": label, "bytes": LINK_BYTES}, exported[10:]))
    return rows


def links(torch, rounds, report):
    context = importlib.import_module("torch.multiprocessing").get_context("spawn")
    pinned = measure_pinned(torch, rounds)
    report["rows"].append(row("py_gpu_floor_pinned_copy", {"bytes": LINK_BYTES}, pinned))
    for package, label in (("sluice.cuda_link", "sluice.cuda_link"), ("cuda_link", "cuda-link")):
        try:
            report["rows"] += measure_link(context, package, label, rounds, statistics.median(pinned))
        except ImportError as error:
            report["missing"].append({"rows": label, "why": str(error)})
        except Exception as error:
            note(f"FAILED {error}")
            why = {"bench": "py_gpu_link", "params": {"way": label}, "why": str(error)[-1000:]}
            if package == "cuda_link":  # a peer's failure is no failure of ours
                report["missing"].append({"rows": label, "why": why["why"]})
            else:
                report["failed"].append(why)
