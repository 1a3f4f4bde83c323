#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests bench/run, bench/gpu/run, bench/gstreamer/run, bench/plot, bench/document and the kept results. usage: test.py ROOT BUILD

Times decide nothing here: the JSON is complete, each installed peer has its rows, and the plots can be drawn.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests/lint"))
sys.path.insert(0, str(pathlib.Path(__file__).parent / "gpu"))
import cases  # noqa: E402
import rows  # noqa: E402
from lint import Lint  # noqa: E402

RANKS = ("p50_ns", "p95_ns", "p99_ns", "p999_ns")
IN_PLACE = {"bare", "sluice", "shm-semaphores", "zeromq", "gstreamer-shm", "iceoryx2-python", "sluice-python"}
PEERS = IN_PLACE | {"pipe", "unix-socket"}


def look_at_row(row):
    problems = []
    if not (isinstance(row.get("bench"), str) and isinstance(row.get("params"), dict)):
        problems.append("bench, params")
    numbers = [row.get(key) for key in RANKS]
    if not all(isinstance(number, int) and number >= 0 for number in numbers) or numbers != sorted(numbers):
        problems.append(f"percentiles {numbers}")
    if not (isinstance(row.get("n"), int) and row["n"] > 0):
        problems.append(f"n is {row.get('n')}")
    if "limit_p50_ns" in row and not isinstance(row["limit_p50_ns"], int):
        problems.append("limit_p50_ns")
    return [f"{row}: {problem}" for problem in problems]


def look_at(figures):
    problems = [f"no {key}" for key in ("machine", "commit", "rows") if key not in figures]
    return problems or [problem for row in figures["rows"] for problem in look_at_row(row)]


def look_at_peers(figures):
    """Each peer has all of its rows, with their limits, or is listed as missing."""
    missing = {each["peer"] for each in figures["missing"]}
    there = {(row["bench"], *row["params"].values()): row for row in figures["rows"] if "/" in row["bench"]}
    sizes = {key[1] for key in there if key[0] == "handoff/bare"}
    problems = [f"{peer} is not known" for peer in missing - PEERS]
    if len(sizes) < 2 or "bare" in missing or "sluice" in missing:
        problems.append("what is measured always is not there")
    for peer in PEERS - missing:
        expected = [(f"handoff/{peer}", size, way, until) for size in sizes for until in ("readable", "read")
                    for way in ("copy", "in-place") if way == "copy" or peer in IN_PLACE]
        problems += [f"no row {key}" for key in expected if key not in there]
        problems += [f"no limit beside {key}" for key in expected
                     if peer != "bare" and "limit_p50_ns" not in there.get(key, {"limit_p50_ns": 0})]
        if peer != "bare" and not any(key[0] == f"rate/{peer}" for key in there):
            problems.append(f"no rate of {peer}")
    return problems


def draw(root, figures, folder):
    """The files of the plots, and why there are none if matplotlib is missing."""
    done = subprocess.run([root / "bench/plot", "--into", folder, figures], capture_output=True, text=True)
    if "no matplotlib" in done.stderr:
        return {}, done.stderr.strip()
    if done.returncode or not done.stdout:
        raise RuntimeError(done.stderr)
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.svg"))}, None


def look_at_plots(root, figures, folder):
    try:
        once, why_not = draw(root, figures, folder / "once")
        twice, _ = draw(root, figures, folder / "twice")
    except (RuntimeError, OSError) as error:
        return [error], None
    problems = [] if once == twice else ["the same figures give other bytes the second time"]
    for name, svg in once.items():
        texts = ["".join(each.itertext()) for each in tree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
        if not any("commit" in text for text in texts):
            problems.append(f"{name} does not say what it is of")
        if b"prefers-color-scheme" not in svg:
            problems.append(f"{name} has no colours for a dark ground")
    return problems, why_not


KERNEL_ROWS = {"gpu_launch": 2, "gpu_graph_launch": 1, "gpu_graph_recapture": 1, "gpu_launch_host_array": 2, "gpu_fork_join": 1, "gpu_load_cached": 1}
GPU_ROWS = ("gpu_handoff_cpu", "gpu_handoff_launch", "gpu_send", "gpu_acquire", "gpu_sleeping", "gpu_soak", "gpu_cipd_handoff_cpu", "gpu_convert_small", *KERNEL_ROWS)


def gpu_run(root, build, folder, *more, **environment):
    """Runs both programs on the tests' fake driver, without a GPU."""
    output = folder / "gpu.json"
    output.unlink(missing_ok=True)
    only = [word for row in GPU_ROWS for word in ("--only", row)]
    done = subprocess.run([root / "bench/gpu/run", "--build", build, "--quick", "--no-mps", "-o", output, *more, *only],
                          capture_output=True, text=True, env=dict(os.environ, **environment))
    return done, json.loads(output.read_text()) if output.exists() else None


def look_at_gpu(done, figures):
    if done.returncode or not figures:
        return [done.stderr]
    found = {row["bench"] for row in figures["rows"]}
    problems = look_at(figures) + [f"no row {name}" for name in GPU_ROWS if name not in found]
    for row in figures["rows"]:
        judged = row["bench"] == "gpu_handoff_cpu" or row["params"].get("from") == "device"
        if judged and row["bench"] not in ("gpu_send_call", "gpu_cipd_send_call") and not {"limit_p50_ns", "goal_ns", "met"} <= row.keys():
            problems.append(f"{row}: no limit, or no goal")
        if row["bench"] == "gpu_send" and row["params"].get("graph") and row["graph_percent"] < 50:
            problems.append(f"{row}: few of its sends were graphs")
        if row["bench"] == "gpu_soak":
            problems += look_at_soak(row)
    return problems + look_at_kernels(figures["rows"]) + look_at_conversions(figures["rows"])


def look_at_kernels(rows):
    problems = []
    for name, count in KERNEL_ROWS.items():
        found = [row for row in rows if row["bench"] == name]
        if len(found) != count or not all("limit_p50_ns" in row for row in found) or "goal_ns" not in found[0]:
            problems.append(f"{name}: {count} rows with a limit, the first with a goal: {found}")
    return problems + [f"{row}: the graph was rebuilt" for row in rows if row.get("rebuilds")]


def look_at_conversions(rows):
    found = [row for row in rows if row["bench"] == "gpu_convert_small"]
    return [] if len(found) == len(cases.CONVERSIONS) and all("limit_p50_ns" in row for row in found) else [f"conversions: {found}"]


def look_at_soak(row):
    problems = []
    if not (row["taken"] > 0 and row["taken_ahead"] > 0 and row["fd_growth"] == 0):
        problems.append(f"{row}: readers took nothing, or descriptors grew")
    if not {*cases.MOST_GROWTH, "flat"} <= row.keys() or row["flat"] != cases.is_flat(row):  # too short to be judged
        problems.append(f"{row}: does not say what grew, or whether too much did")
    for key, most in cases.MOST_GROWTH.items():
        if not cases.is_flat(dict(cases.MOST_GROWTH, **{key: most - 4096})) or cases.is_flat(dict(cases.MOST_GROWTH, **{key: most + 1})):
            problems.append(f"a soak whose {key} is {most + 1} is flat, or one below it is not")
    return problems


def look_at_tables(root, figures):
    """The documents' tables can be made of these figures, and differ from those of the kept ones."""
    done = subprocess.run([root / "bench/document", "--check", figures], capture_output=True, text=True)
    return [] if done.returncode == 1 and "benchmarks.md" in done.stderr and "Traceback" not in done.stderr else [done.stderr]


def look_at_gstreamer(done, figures):
    if done.returncode or not figures:
        return [done.stderr]
    missing = {(each["bench"], each["system"]) for each in figures["missing"]}
    found = {(row["bench"], row["params"]["system"]): row for row in figures["rows"]}
    expected = [("gst_latency", "sluice"), ("gst_latency", "limit"), ("gst_latency", "gstreamer-shm"), ("gst_decode", "sluice")]
    problems = look_at(figures) + [f"no row {key}" for key in expected if key not in found and key not in missing]
    for row in figures["rows"]:
        if row.get("copied") or row.get("reader_copied"):
            problems.append(f"{row}: pictures were copied")
        if row["bench"] == "gst_decode" and row["params"]["system"] == "sluice" and not row["frames"] == row["equal"] == row["in_place"] > 0:
            problems.append(f"{row}: pictures differ")
    return problems


def try_gstreamer(root, build, folder, lint):
    """Three seconds: the same job by each system, and a decoder that renders into a channel."""
    if not (build / "bench/gstreamer/gst-pipeline").exists():
        lint.check("bench/gstreamer/run", [], skip="libgstreamer-plugins-base1.0-dev is not installed")
        return
    output = folder / "gstreamer.json"
    done = subprocess.run([root / "bench/gstreamer/run", "--quick", "--build", build, "-o", output], stderr=subprocess.PIPE, text=True)
    figures = json.loads(output.read_text()) if output.exists() else None
    lint.check("bench/gstreamer/run --quick", look_at_gstreamer(done, figures))
    for each in figures["missing"] if figures else []:
        lint.check(f"{each['bench']} of {each['system']}", [], skip=each["why"])


def look_at_both(root, build, folder, lint):
    nvrtc = str(build / "tests/fake/libfakenvrtc.so")
    done, figures = gpu_run(root, build, folder, SLUICE_CUDA_DRIVER=str(build / "tests/fake/libfakecuda.so"), SLUICE_NVRTC=nvrtc)
    lint.check("bench/gpu/run on the fake driver", look_at_gpu(done, figures))
    lint.check("tables of it", look_at_tables(root, folder / "gpu.json") if figures else ["nothing was measured"])
    done, figures = gpu_run(root, build, folder, "--within", "0", SLUICE_CUDA_DRIVER=str(build / "tests/fake/libfakecuda.so"))
    left = set(GPU_ROWS) - set((figures or {}).get("not_run", []))
    lint.check("what it has no time for it names", [f"{left}: {done.stderr}"] if left or done.returncode or figures["rows"] else [])
    done, figures = gpu_run(root, build, folder, SLUICE_CUDA_DRIVER="/nowhere/libcuda.so")
    said = "there is no CUDA driver" in done.stderr
    lint.check("without a driver it says so", [] if done.returncode == 77 and said and not figures else [done.stderr])


def main():
    root, build = map(pathlib.Path, sys.argv[1:])
    lint = Lint()
    for kept in sorted((root / "bench/results").glob("*.json")):
        figures = json.loads(kept.read_text())
        if kept.name.startswith("soak-"):
            continue  # records of test runs, not figures to compare
        if kept.name.startswith("live-"):  # rates and shares, too
            figures = {**figures, "rows": [each for each in figures["rows"] if each["bench"].startswith("run_")]}
        lint.check(f"{kept.name} is whole", look_at(figures))
        lint.check(f"{kept.name} has one row a line", [] if kept.read_text() == rows.text(json.loads(kept.read_text())) else ["bench/rows.py writes other lines"])
        if kept.name.startswith("host-"):
            lint.check(f"{kept.name} has its peers", look_at_peers(figures))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        look_at_both(root, build, folder, lint)
        try_gstreamer(root, build, folder, lint)
        output = folder / "figures.json"
        done = subprocess.run([root / "bench/run", "--quick", "--build", build, "-o", output], stderr=subprocess.PIPE, text=True)
        lint.check("bench/run --quick", [done.stderr] if done.returncode else [])
        if done.returncode == 0:
            figures = json.loads(output.read_text())
            lint.check("its JSON is whole", look_at(figures))
            lint.check("each peer has its rows", look_at_peers(figures))
            for each in figures["missing"]:
                lint.check(f"the peer {each['peer']}", [], skip=each["why"].splitlines()[-1])
            problems, why_not = look_at_plots(root, output, folder)
            lint.check("its plots", problems, skip=why_not)
    lint.finish()


main()
