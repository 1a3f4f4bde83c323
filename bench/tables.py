#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts the figures of a GPU into the documents: bench/document [--check] [FIGURES.json]

Without a file bench/results/gpu-h200.json, which is results.json of dev/gpu-check; what takes two GPUs, or asks for the
facts of that run, is always of gpu-h200-x2.json. Between `<!-- gpu figures: NAME -->`
and `<!-- end -->` stands what the function NAME below makes of them, and bench/plot draws them, if it can. --check changes
nothing, and ends with 1 if a page says something else.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/gpu"))
from goals import BESIDE, CHANNELS, CUDA_LINK, find  # noqa: E402

KEPT = ROOT / "bench/results/gpu-h200.json"
PAIR = ROOT / "bench/results/gpu-h200-x2.json"
BLOCK = re.compile(r"(<!-- gpu figures: (\w+) -->\n).*?(<!-- end -->)", re.S)
NOT_YET = "No run is kept in `bench/results/` yet; `bench/gpu/run` prints these rows."
NONE = "–"
FULL = {"size": "1080p", "type": "float32"}
BUSY = (("none", "nobody"), ("writer", "the writer"), ("reader", "the reader"), ("both", "both"))
KINDS = (("512x512", "uint8"), ("1080p", "uint8"), ("1080p", "float32"), ("4K", "float32"), ("8K", "float32"))


# ---- rows and cells ----

def time(ns):
    if ns is None:
        return NONE
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= unit:
            return f"{ns / unit:.3g} {name}" if ns < 1000 * unit else f"{ns / unit:.0f} {name}"
    return f"{ns:.0f} ns"


def speed(row, key):
    return f"{row['params']['bytes'] / row[key]:.1f} GB/s" if row.get(key) else NONE


def met(row):
    return {True: "yes", False: "**no**"}.get(row.get("met"), "")


def table(head, lines):
    cells = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(map(str, each))} |\n" for each in cells)


def pair(row):
    """Sluice's median, and the bare limit's."""
    return [time(row.get("p50_ns")), time(row.get("limit_p50_ns"))]


def commit_of_rows(figures):
    """Where the tests were run again later, the commit of these is another."""
    return figures.get("rows_commit", figures.get("commit", "?"))


# ---- what stands in the pages ----

def about(figures):
    machine, gpu = figures.get("machine") or {}, (figures.get("gpus") or [{}])[0]
    goals = [row["met"] for row in figures["rows"] if "met" in row]
    lines = [f"{gpu.get('name', 'a GPU')}, driver {gpu.get('driver', '?')}; {machine.get('cpu', '?')}, {machine.get('cores', '?')} "
             f"cores, Linux {machine.get('kernel', '?')}; commit {commit_of_rows(figures)}. Of {len(goals)} goals "
             f"{sum(goals)} are met; medians, if nothing else is said."]
    lost = [f"- not measured: {each.get('rows', '?')}: {each.get('why', '?')}" for each in figures.get("missing", [])]
    lost += [f"- failed: {each['bench']}: {each['why']}" for each in figures.get("failed", [])]
    return "\n".join([*lines, *([""] if lost else []), *lost]) + "\n"


def goals(figures):
    """With what the driver alone takes beside, where a limit is of less; what older figures have not is left out."""
    lines = []
    for goal in CHANNELS + CUDA_LINK:
        row = find(figures, goal.bench, **goal.first)
        lines.append([goal.what, *(time(row.get(key)) for key in ("p50_ns", "p99_ns", "limit_p50_ns", "goal_ns")), met(row)])
        for bare in BESIDE.get(goal.what, ()):
            found = find(figures, bare.bench, **bare.first)
            lines.append([bare.what, NONE, NONE, time(found.get("p50_ns")), NONE, ""])
    return table(["from ... to ...", "p50", "p99", "bare limit", "goal", "met"], [line for line in lines if set(line[1:4]) != {NONE}])


def busy(figures):
    lines = []
    for mps, name in ((False, ""), (True, ", MPS")):
        for word, who in BUSY:
            at = {"busy": word, "mps": mps}
            lines.append([f"{who}{name}", *pair(find(figures, "gpu_handoff_cpu", **at)),
                          *pair(find(figures, "gpu_handoff_launch", **at)),
                          *([NONE, time(find(figures, "gpu_limit_handoff_parked", **at).get("p50_ns"))] if mps else
                            pair(find(figures, "gpu_handoff_parked", **at)))])
    return table(["the GPU is kept busy by", "to the reader's CPU", "bare", "to work that it launches then", "bare",
                  "to a stream that waits ahead", "bare"], lines)


def copies(figures):
    lines = []
    for size, kind in KINDS:
        send = find(figures, "gpu_send", size=size, type=kind, busy="none", mps=False, **{"from": "device"})
        call = find(figures, "gpu_send_call", size=size, type=kind, busy="none", mps=False, **{"from": "device"})
        fetch = find(figures, "gpu_fetch", size=size, type=kind)
        lines.append([f"{size}, {kind}", *pair(send), *pair(call), time(fetch.get("p50_ns")), speed(fetch, "p50_ns"),
                      speed(fetch, "limit_p50_ns")])
    return table(["RGBA", "send until seen ready", "bare", "the call alone", "bare", "fetch, pinned", "is", "bare"], lines)


def pipelined(figures):
    found = [row for row in figures["rows"] if row["bench"] == "gpu_fetch_pipelined"]
    return table(["work on each frame, CPU", "one turn", "bare", "goal", "met"],
                 [[time(row["params"]["work_ns"]), *pair(row), time(row.get("goal_ns")), met(row)] for row in found])


def readers(figures):
    lines = []
    for count in (1, 4, 16, 64):
        plain, ahead = (find(figures, "gpu_commit", readers=count, ahead=each) for each in (False, True))
        taken = find(figures, "gpu_commit_ahead", readers=count)
        lines.append([count, *pair(plain), *pair(ahead), *pair(taken), time(find(figures, "gpu_readers_waiting", readers=count).get("p50_ns")),
                      time(find(figures, "gpu_readers_waiting_commit", readers=count).get("p50_ns"))])
    return table(["readers", "commit, nobody waits", "bare", "all ahead", "bare", "all take it ahead", "bare",
                  "asleep: until they have it", "asleep: that commit"], lines)


def parked(figures):
    """Of 32 unrelated streams, how many stand still."""
    def stalled(row):
        return f"{row['stalled']}, {row['stalled_most']}" if "stalled" in row else NONE

    lines = []
    for asked in range(9):
        ours = [find(figures, "gpu_parked", asked=asked, busy=each) for each in ("none", "both")]
        bare = [find(figures, "gpu_limit_parked", asked=asked, busy=each) for each in ("none", "both")]
        lines.append([asked, *(ours[1].get(key, NONE) for key in ("parked",)), *map(stalled, ours), *map(stalled, bare)])
    return table(["streams that wait: asked for", "let wait", "of 32 stand still (median, worst turn), GPU idle", "GPU busy",
                  "by bare waits, GPU idle", "GPU busy"], lines)


def torch(figures):
    lines = []
    for way, name in (("copy", "the frame is in the writer's own memory"), ("in-place", "the frame is made where it is handed over")):
        theirs = find(figures, "gpu_torch", way=way, until="readable", **FULL)
        ours = find(figures, "gpu_send", busy="none", mps=False, **FULL, **{"from": "device"}) if way == "copy" else \
            find(figures, "gpu_handoff_cpu", busy="none", mps=False)
        lines.append([name, *(time(theirs.get(key)) for key in ("p50_ns", "p99_ns")),
                      *(time(ours.get(key)) for key in ("p50_ns", "p99_ns"))])
    return table(["1080p RGBA float32", "torch.multiprocessing, p50", "p99", "Sluice, p50", "p99"], lines)


def python(figures):
    lines = []
    for row in figures["rows"]:
        if row["bench"].startswith("py_gpu_"):
            words = [row["params"][key] for key in ("way", "wait") if key in row["params"]]
            words += ["filled within"] * (row["params"].get("fill") == "within")
            words += ["sender woken"] * (row["params"].get("sender") == "woken")
            words += ["on a stream of its own"] * (row["params"].get("stream") == "own")
            way = ", ".join(words + ["call by call"] * (row["params"].get("graph") is False))
            lines.append([f"`{row['bench']}`", way, *(time(row.get(key)) for key in ("p50_ns", "p99_ns", "limit_p50_ns", "goal_ns")),
                          met(row)])
    return table(["row", "way", "p50", "p99", "floor", "goal", "met"], lines) if lines else \
        "The run that is kept has none of these rows; `python/bench_gpu.py` prints them.\n"


# ---- and of two GPUs ----

def run_of(figures, commit):
    gpu, machine = figures["gpus"][0], figures["machine"]
    return f"({len(figures['gpus'])} x {gpu['name']}, driver {gpu['driver']}, {machine['cpu']}; commit {commit}; medians.)\n"


def far(figures):
    """Out of another GPU's slot, by the program and by acquire."""
    lines = []
    for size, kind in KINDS:
        copy, acquire = (find(figures, f"gpu_far_{how}", size=size, type=kind) for how in ("copy", "acquire"))
        lines.append([f"{size}, {kind}", *pair(copy), speed(copy, "p50_ns"), time(acquire.get("p50_ns")), time(acquire.get("p99_ns"))])
    return table(["RGBA", "a copy out of the slot, and its end", "bare", "is", "`acquire` with copies, p50", "p99"],
                 lines) + "\n" + run_of(figures, commit_of_rows(figures))


def fallbacks(figures):
    """What the call takes, and when another CPU sees it; facts of tests/gpu."""
    costs = {fact["call"]: fact for fact in figures["facts"] if fact["fact"] == "cost"}
    rows = (("the stream writes a word: the driver's call alone", "cuStreamWriteValue64", None),
            ("- with all that Sluice does around it", "signal, context current", "signal seen by the CPU"),
            ("a function that the stream calls", "signal by a function", "signal by a function seen by the CPU"))
    cells = [[name, *(time(costs.get(key, {}).get(p)) for key in (call, seen) for p in ("p50_ns", "p99_ns"))]
             for name, call, seen in rows]
    return table(["a commit or release on a stream", "of the CPU, p50", "p99", "until a CPU sees it, p50", "p99"],
                 cells) + "\n" + run_of(figures, figures["commit"])


def cuda_link(figures):
    """By cuda-link's protocol: a frame that is copied into a slot, published at once or when the GPU is done."""
    lines = []
    for size, kind in ((size, kind) for size in ("512x512", "1080p", "4K") for kind in ("uint8", "float32")):
        for blocking in (False, True):
            for graph in (False, True):
                params = {"size": size, "type": kind, "blocking": blocking, "graph": graph}
                seen, call = (find(figures, f"gpu_cipd_send{what}", **params) for what in ("", "_call"))
                if not seen:  # older figures have none of 512x512 float32
                    continue
                how = ("blocking" if blocking else "asynchronous") + ", as a graph" * graph
                lines.append([f"{size}, {kind}", how, *pair(call), *pair(seen), time(seen.get("goal_ns")), met(seen)])
    return table(["RGBA", "send", "the call", "bare", "until a reader knows that it is ready", "bare", "goal", "met"], lines)


def plots(_):
    names = (("bench-gpu-handoff", "from one process to another"), ("bench-gpu-parked", "streams that stand still"))
    return "".join(f"![{what}](img/{name}.svg)\n" for name, what in names if (ROOT / f"docs/img/{name}.svg").exists())


BLOCKS = {each.__name__: each for each in (about, goals, busy, copies, pipelined, readers, parked, torch, cuda_link, python, plots)}
OF_PAIR = {each.__name__: each for each in (far, fallbacks)}


# ---- pages ----

def filled(text, figures):
    def block(at):
        if at[2] in OF_PAIR:
            return at[1] + OF_PAIR[at[2]](json.loads(PAIR.read_text())) + at[3]
        return at[1] + (BLOCKS[at[2]](figures) if figures.get("rows") else NOT_YET + "\n") + at[3]
    return BLOCK.sub(block, text)


def draw(path):
    """As bench/plot does; it wants matplotlib, which this Python may have, or the system's."""
    for command in ([sys.executable, ROOT / "bench/plot", path], [ROOT / "bench/plot", path]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return
    print(done.stderr.strip(), file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="?", type=pathlib.Path, default=KEPT)
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args()
    figures = json.loads(options.figures.read_text())
    if figures.get("rows") and not options.check:
        draw(options.figures)
    stale = False
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text()
        new = filled(text, figures)
        if new == text:
            continue
        print(page.relative_to(ROOT), file=sys.stderr)
        stale = True
        if not options.check:
            page.write_text(new)
    sys.exit(1 if stale and options.check else 0)


main()
