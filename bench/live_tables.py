# SPDX-License-Identifier: MIT
"""Tables of live loops and of what is measured from Python alone, for bench/tables.py."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "gpu"))
from cells import MIB, NONE, met, table, time, times  # noqa: E402
from goals import find  # noqa: E402

ENGINES = {"diffusion": "diffusion, 512x512", "style": "painting network, 512x512"}


def live(figures):
    """A line for each goal of each engine on a GPU."""
    lines, made = [], figures.live
    for engine, name in ENGINES.items():
        params = {"engine": engine, "device": "gpu"}
        rate, ratio = find(made, "live_rate", **params), find(made, "live_ratio", **params)
        lines.append([f"**{name}**, with control: pictures a second", rate.get("frames_per_s", NONE), "", NONE, rate.get("goal_frames_per_s", NONE), met(rate)])
        lines.append(["- of those of the engine alone, fed from a tensor", ratio.get("ratio", NONE), "", ratio.get("limit_frames_per_s", NONE),
                      ratio.get("goal_ratio", NONE), met(ratio)])
        for reader in "polling", "sleeping":
            row = find(made, "live_added_latency", **params, reader=reader)
            lines.append([f"- commit of an input until a third process has the picture, {reader}", *times(row, "p50_ns", "p99_ns", "limit_p50_ns"),
                          f"limit + {time(row.get('goal_ns'))}", met(row)])
        row = find(made, "live_photon", **params)
        lines.append(["- motion to photon at 60 Hz", *times(row, "p50_ns", "p99_ns"), NONE, time(row.get("goal_ns")), met(row)])
        lines.append(["- the same by a flash", time(row.get("flash_ms", 0) * 1e6), "", NONE, f"{row.get('pictures_apart', NONE)} pictures apart", ""])
        row = find(made, "live_session_cpu", **params)
        lines.append(["- CPU time of the loop for a shot, without the engine", *times(row, "p50_ns", "p99_ns", "limit_p50_ns", "goal_ns"), met(row)])
    for way, words in ("in", "1080p to 1x3x512x512 float16, GPU time"), ("same size", "512x512 to the same"), ("out", "back to RGBA"):
        row = find(made, "live_convert", way=way)
        lines.append([words, *times(row, "p50_ns", "p99_ns", "limit_p50_ns", "goal_ns"), met(row)])
    gpu = (made["gpus"] or ["host memory"])[0]
    return table(["", "p50", "p99", "bare limit", "goal", "met"], lines) + f"\n{gpu}, commit {made['commit']}.\n"


def live_ways(figures):
    lines = []
    for row in figures.live["rows"]:
        if row["bench"] == "live_other_way" or row["bench"] == "live_photon" and row["params"]["device"] == "gpu":
            params, ours = row["params"], row["bench"] == "live_photon"
            way = ("Sluice, engine of `streamdiffusion` 0.1.1" if params.get("upstream") else "Sluice") if ours else WAYS[params["way"]]
            lines.append([f"{params['engine']}: {way}", time(row.get("p50_ns")), time(row.get("flash_ms", 0) * 1e6),
                          "" if ours else f"{row['cpu_us']['p50'] / 1e3:.3g} ms"])
    return table(["60 pictures a second", "p50, by metadata", "by a flash", "CPU of the loop's thread, a shot"], sorted(lines))


WAYS = {"shared_memory": "PyTorch over host memory", "cuda_link": "cuda-link 1.1.0's classes, as StreamDiffusion has them (no control)"}


def live_long(figures):
    row, cold = find(figures.live, "live_long"), find(figures.live, "live_cold_starts")
    grown = row["growth"]
    return (f"{row['params']['seconds']} s of the diffusion engine while OSC changed a parameter or the control each second: {row['n']} pictures, p50 "
            f"{time(row['p50_ns'])}, p99 {time(row['p99_ns'])}, {row['p99_of_p50']} times that. {row['compared']} of them were painted again "
            f"afterwards, {row['with_control']} with control: {row['wrong']} differed. From the second tenth to the last, GPU memory grew by "
            f"{grown['device_bytes']} bytes, host memory by {grown['host_bytes'] / MIB:.1f} MiB, descriptors by {grown['descriptors']}. Of "
            f"{cold['n']} starts with a control at {cold['params']['scale']}, {cold['errors']} failed, and in {cold['acted_in_first_picture']} it acted in "
            f"the first picture.\n")


def watch(figures):
    row = find(figures.live, "run_watch")
    lines = [["`sluice run --watch`: from saving a file until its first frame is received", *times(row, "p50_ns", "p99_ns", "limit_p50_ns", "goal_ns"),
              met(row)]]
    for dtype in "float32", "float16":
        row, peer = (find(figures.live, "py_gpu_convert", way=way, to=dtype) for way in ("sluice", "torch"))
        lines.append([f"`sluice.convert` of 1080p RGBA to 3x512x512 {dtype}, smooth; PyTorch takes {time(peer.get('p50_ns'))}",
                      *times(row, "p50_ns", "p99_ns", "limit_p50_ns", "goal_ns"), met(row)])
    return table(["from Python, and from the command", "p50", "p99", "compiler alone, copy", "goal", "met"], lines)
