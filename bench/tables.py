# SPDX-License-Identifier: MIT
"""Tables of the kept figures, for the pages: bench/document writes them into the repository's, docs/site/conf.py into the site's.

A page has two kinds of marks. Between `<!-- figures: NAME -->` (or `gpu figures:`) and `<!-- end -->` stands what the function NAME
below returns. A line `<!-- site table: NAME -->` or `<!-- site picture: NAME, WORDS -->` is a comment in the repository; on the site
the table, or the picture that bench/plot draws, takes its place.
"""
import functools
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/gpu"))
from goals import BESIDE, CHANNELS, CONVERSIONS, CUDA_LINK, KERNELS, find  # noqa: E402
from cells import MIB, NONE, met, pair, speed, table, time, times  # noqa: E402
import live_tables  # noqa: E402

BLOCK = re.compile(r"(<!-- (?:gpu )?figures: (\w+) -->\n).*?(<!-- end -->)", re.S)
SITE_TABLE = re.compile(r"^<!-- site table: (\w+) -->$", re.M)
SITE_PICTURE = re.compile(r"^<!-- site picture: ([\w-]+), (.*) -->$", re.M)
FULL = {"size": "1080p", "type": "float32"}
BUSY = (("none", "nobody"), ("writer", "the writer"), ("reader", "the reader"), ("both", "both"))
KINDS = (("512x512", "uint8"), ("1080p", "uint8"), ("1080p", "float32"), ("4K", "float32"), ("8K", "float32"))
PEERS = {  # and what the tables and the chart call them
    "bare": "bare limit", "sluice": "Sluice", "sluice-python": "Sluice, Python", "shm-semaphores": "shared memory, semaphores",
    "iceoryx2-python": "iceoryx2, Python", "gstreamer-shm": "GStreamer shmsink", "unix-socket": "Unix socket", "zeromq": "ZeroMQ",
    "pipe": "pipe",
}


@functools.cache
def kept(name):
    return json.loads((ROOT / "bench/results" / f"{name}.json").read_text())


class Figures:
    """What is kept of each kind of machine; `measured` takes the place of its own kind."""

    def __init__(self, measured=None):
        self.gpu, self.host = kept("gpu-h200"), kept("host-amd-epyc-2-cores")
        self.pair, self.link = kept("gpu-h200-x2"), kept("gpu-h200-cuda-link")
        self.gstreamer, self.live = kept("gstreamer-xeon-2-cores"), kept("live-gpu-h200")
        self.calls = kept("calls-xeon-2-cores")  # conversions and kernels on the CPU
        if measured and any(row["bench"].startswith("gst_") for row in measured["rows"]):
            self.gstreamer = measured
        elif measured and any(row["bench"].startswith("live_") for row in measured["rows"]):
            self.live = measured
        elif measured and any(row["bench"].startswith("gpu_") for row in measured["rows"]):
            self.gpu = measured
        elif measured:
            self.host = measured
            self.calls = measured if find(measured, "convert_nv12") else self.calls


def commit_of_rows(figures):
    """Where the tests were run again later, the commit of the rows is another."""
    return figures.get("rows_commit", figures.get("commit", "?"))


# ---- the host ----

def about_host(figures):
    machine = figures.host["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}; commit {figures.host['commit']}. Medians.\n"


def calls(figures):
    rows = (("commit until `acquire` returns in a reader that spins", "handoff_spinning", {}),
            ("- a frame of 1 GiB", "handoff_size", {"bytes": 1 << 30}),
            ("- the reader asleep", "handoff_sleeping", {}),
            ("- 16 readers asleep, until the last has it", "readers_waiting_latency", {"readers": 16}),
            ("begin and commit, CPU", "begin_commit", {}),
            ("- 64 readers that do not wait", "readers_idle_begin_commit", {"readers": 64}),
            ("acquire and release, CPU", "acquire_release", {"mode": "newest", "writer": "another core"}),
            ("`send` of 8 MiB", "send", {"bytes": 8 * MIB}), ("`fetch` of 8 MiB", "fetch", {"bytes": 8 * MIB}),
            ("SIGKILL of a reader until its slot is free", "kill_reader", {}),
            ("SIGKILL of a writer until its reader knows", "kill_writer", {}))
    found = [(what, find(figures.host, bench, **params)) for what, bench, params in rows]
    return table(["from ... to ...", "p50", "p99", "bare limit"],
                 [[what, *times(row, "p50_ns", "p99_ns", "limit_p50_ns")] for what, row in found])


def peers(figures):
    lines = []
    for peer, name in PEERS.items():
        cells = [time(find(figures.host, f"handoff/{peer}", bytes=size, way=way, until="readable").get("p50_ns"))
                 for size in (64 << 10, 8 * MIB) for way in ("copy", "in-place")]
        rates = [find(figures.host, f"rate/{peer}", bytes=8 * MIB, way=way).get("frames_per_s") for way in ("copy", "in-place")]
        lines.append([name, *cells, *(NONE if rate is None else f"{rate:,.0f}" for rate in rates)])
    return table(["until a sleeping reader can read it", "64 KiB, copied", "in place", "8 MiB, copied", "in place", "8 MiB frames a second, copied",
                  "in place"], lines)


# ---- a GPU ----

def about(figures):
    gpu = figures.gpu
    machine, card = gpu.get("machine") or {}, (gpu.get("gpus") or [{}])[0]
    judged = [row["met"] for row in gpu["rows"] if "met" in row]
    lines = [f"{card.get('name', 'a GPU')}, driver {card.get('driver', '?')}; {machine.get('cpu', '?')}, {machine.get('cores', '?')} "
             f"cores, Linux {machine.get('kernel', '?')}; commit {commit_of_rows(gpu)}. {sum(judged)} of {len(judged)} goals "
             f"are met. Medians, unless a column says otherwise."]
    lost = [f"- not measured: {each.get('rows', '?')}: {each.get('why', '?')}" for each in gpu.get("missing", [])]
    lost += [f"- failed: {each['bench']}: {each['why']}" for each in gpu.get("failed", [])]
    return "\n".join([*lines, *([""] if lost else []), *dict.fromkeys(lost)]) + "\n"


def goal_lines(figures, some):
    """Also what the driver alone takes, where the bare limit does less than Sluice must; rows that were not measured are left out."""
    lines = []
    for goal in some:
        row = find(figures.gpu, goal.bench, **goal.first)
        lines.append([goal.what, *times(row, "p50_ns", "p99_ns", "limit_p50_ns", "goal_ns"), met(row)])
        for bare in BESIDE.get(goal.what, ()):
            found = find(figures.gpu, bare.bench, **bare.first)
            lines.append([bare.what, NONE, NONE, time(found.get("p50_ns")), NONE, ""])
    return [line for line in lines if set(line[1:4]) != {NONE}]


def goals(figures):
    return table(["from ... to ...", "p50", "p99", "bare limit", "goal", "met"], goal_lines(figures, CHANNELS + CUDA_LINK))


NO_KERNELS = "The run that is kept has none of these rows.\n"


def of_kernels(figures):
    """Rows of kernels and conversions may be of a later run than the others."""
    commit = figures.gpu.get("kernels_commit")
    return f"\n(commit {commit}; medians, unless a column says otherwise)\n" if commit else ""


def kernels(figures):
    lines = goal_lines(figures, KERNELS)
    return table(["from C", "p50", "p99", "bare limit", "goal", "met"], lines) + of_kernels(figures) if lines else NO_KERNELS


def conversions(figures):
    lines = goal_lines(figures, CONVERSIONS)
    return table(["conversion", "p50", "p99", "copy", "goal", "met"], lines) + of_kernels(figures) if lines else NO_KERNELS


def calls_alone(figures, rows, head):
    lines = [[what, *times(find(figures.calls, bench), "p50_ns", "p99_ns", "limit_p50_ns")] for what, bench in rows]
    machine = figures.calls["machine"]
    return table(head, lines) + f"\n{machine['cpu']}, {machine['cores']} cores, commit {figures.calls['commit']}.\n"


def conversions_host(figures):
    rows = (("NV12 to RGBA", "convert_nv12"), ("RGBA to 3 x 512 x 512 float32, smooth", "convert_tensor"))
    return calls_alone(figures, rows, ["1080p, one CPU", "p50", "p99", "copy"])


def kernels_python(figures):
    """By stream; a row for each way."""
    ways = {}
    for each in figures.gpu["rows"]:
        if each["bench"] == "py_gpu_kernel_launch":
            ways.setdefault(each["params"]["way"], {})[each["params"]["stream"]] = each
    lines = [[way, *(cell for stream in ("explicit", "default") for cell in times(rows.get(stream, {}), "p50_ns", "p99_ns", "goal_ns"))]
             for way, rows in ways.items()]
    return table(["a launch from Python", "on a stream, p50", "p99", "goal", "on the default stream, p50", "p99", "goal"], lines) + of_kernels(figures) if lines else NO_KERNELS


def kernels_quadrants(figures):
    """Sluice and Quadrants, each with the exception that the call raised."""
    def cells(what, way, params):
        found = find(figures.gpu, f"py_gpu_quadrants_{what}", way=way, **params)
        said = found.get("params", {}).get("raises", "nothing")
        return time(found.get("p50_ns")) + (f", raises {said}" if said != "nothing" else "")

    lines = []
    for name, device in (("", None), (", CPU", "host")):
        for what, text, more in (("launch", "a launch on a stream", {"stream": "explicit"}), ("launch", "on the default stream", {"stream": "default"}),
                                 ("closed_launch", "a launch on a closed stream", {}),
                                 ("closed_synchronize", "its `synchronize()`" + (", the default stream busy for 50 ms" if not device else ""), {}),
                                 ("with_end", "the end of `with stream`, whose work takes 50 ms", {}),
                                 ("graph", "a graph of two kernels on a stream", {})):
            params = {**more, "device": device}
            lines.append([text + name, *(cells(what, way, params) for way in ("sluice", "quadrants"))])
    lines = [line for line in lines if set(line[1:]) != {NONE}]
    return table(["from Python", "Sluice", "Quadrants"], lines) + of_kernels(figures) if lines else NO_KERNELS


def kernels_host(figures):
    rows = (("a launch of an empty kernel", "kernel_launch"), ("a barrier of 256 threads", "kernel_barrier"),
            ("edges of a grey picture of 1080p (Sobel)", "kernel_sobel"))
    return calls_alone(figures, rows, ["one CPU", "p50", "p99", "the same in C"])


def busy(figures):
    lines = []
    for mps, name in ((False, ""), (True, ", MPS")):
        for word, who in BUSY:
            at = {"busy": word, "mps": mps}
            waits = [NONE, time(find(figures.gpu, "gpu_limit_handoff_parked", **at).get("p50_ns"))] if mps else \
                pair(find(figures.gpu, "gpu_handoff_parked", **at))
            lines.append([f"{who}{name}", *pair(find(figures.gpu, "gpu_handoff_cpu", **at)),
                          *pair(find(figures.gpu, "gpu_handoff_launch", **at)), *waits])
    return table(["the GPU is kept busy by", "to the reader's CPU", "bare", "to work that it launches then", "bare",
                  "to a stream that waits ahead", "bare"], lines)


def copies(figures):
    lines = []
    for size, kind in KINDS:
        at = {"size": size, "type": kind}
        send, call = (find(figures.gpu, bench, busy="none", mps=False, **at, **{"from": "device"}) for bench in ("gpu_send", "gpu_send_call"))
        fetch = find(figures.gpu, "gpu_fetch", **at)
        lines.append([f"{size}, {kind}", *pair(send), *pair(call), time(fetch.get("p50_ns")), speed(fetch, "p50_ns"),
                      speed(fetch, "limit_p50_ns")])
    return table(["RGBA", "send until seen ready", "bare", "the call alone", "bare", "fetch, pinned", "speed", "bare"], lines)


def pipelined(figures):
    found = [row for row in figures.gpu["rows"] if row["bench"] == "gpu_fetch_pipelined"]
    return table(["work on each frame, CPU", "one turn", "bare", "goal", "met"],
                 [[time(row["params"]["work_ns"]), *pair(row), time(row.get("goal_ns")), met(row)] for row in found])


def readers(figures):
    lines = []
    for count in (1, 4, 16, 64):
        plain, ahead = (find(figures.gpu, "gpu_commit", readers=count, ahead=each) for each in (False, True))
        taken, asleep, wakes = (find(figures.gpu, bench, readers=count)
                                for bench in ("gpu_commit_ahead", "gpu_readers_waiting", "gpu_readers_waiting_commit"))
        lines.append([count, *pair(plain), *pair(ahead), *pair(taken), time(asleep.get("p50_ns")), time(wakes.get("p50_ns"))])
    return table(["readers", "commit, nobody waits", "bare", "all ahead", "bare", "all take it ahead", "bare",
                  "asleep: until they have it", "asleep: that commit"], lines)


def parked(figures):
    """Of 32 unrelated streams, how many stand still."""
    def stalled(row):
        return f"{row['stalled']}, {row['stalled_most']}" if "stalled" in row else NONE

    lines = []
    for asked in range(9):
        ours, bare = ([find(figures.gpu, bench, asked=asked, busy=each) for each in ("none", "both")]
                      for bench in ("gpu_parked", "gpu_limit_parked"))
        lines.append([asked, ours[1].get("parked", NONE), *map(stalled, ours), *map(stalled, bare)])
    return table(["streams that wait: asked for", "let wait", "of 32 stand still (median, worst turn), GPU idle", "GPU busy",
                  "by bare waits, GPU idle", "GPU busy"], lines)


def torch(figures):
    lines = []
    for way, name in (("copy", "the frame is in the writer's own memory"), ("in-place", "the frame is made where it is handed over")):
        theirs = find(figures.gpu, "gpu_torch", way=way, until="readable", **FULL)
        ours = find(figures.gpu, "gpu_send", busy="none", mps=False, **FULL, **{"from": "device"}) if way == "copy" else \
            find(figures.gpu, "gpu_handoff_cpu", busy="none", mps=False)
        lines.append([name, *times(theirs, "p50_ns", "p99_ns"), *times(ours, "p50_ns", "p99_ns")])
    return table(["1080p RGBA float32", "torch.multiprocessing, p50", "p99", "Sluice, p50", "p99"], lines)


def cuda_link(figures):
    """By cuda-link's protocol: a frame that is copied into a slot, published at once or when the GPU is done."""
    lines = []
    for size, kind in ((size, kind) for size in ("512x512", "1080p", "4K") for kind in ("uint8", "float32")):
        for blocking in (False, True):
            for graph in (False, True):
                params = {"size": size, "type": kind, "blocking": blocking, "graph": graph}
                seen, call = (find(figures.gpu, f"gpu_cipd_send{what}", **params) for what in ("", "_call"))
                if not seen:  # older figures have none of 512x512 float32
                    continue
                how = ("blocking" if blocking else "asynchronous") + ", as a graph" * graph
                lines.append([f"{size}, {kind}", how, *pair(call), *pair(seen), time(seen.get("goal_ns")), met(seen)])
    return table(["RGBA", "send", "the call", "bare", "until a reader knows that it is ready", "bare", "goal", "met"], lines)


def python(figures):
    lines = []
    for row in figures.gpu["rows"]:
        if row["bench"].startswith("py_gpu_") and not row["bench"].startswith(("py_gpu_kernel", "py_gpu_quadrants")):
            params = row["params"]
            words = [params[key] for key in ("way", "wait") if key in params]
            words += ["filled within"] * (params.get("fill") == "within")
            words += ["sender woken"] * (params.get("sender") == "woken")
            words += ["on a stream of its own"] * (params.get("stream") == "own")
            words += ["call by call"] * (params.get("graph") is False)
            lines.append([f"`{row['bench']}`", ", ".join(words), *times(row, "p50_ns", "p99_ns", "limit_p50_ns", "goal_ns"), met(row)])
    return table(["row", "way", "p50", "p99", "floor", "goal", "met"], lines) if lines else \
        "The run that is kept has none of these rows; `python/bench_gpu.py` prints them.\n"


def cuda_link_package(figures):
    """Sluice's module beside the package cuda-link, of a run that had it."""
    lines = []
    for call in ("get_frame", "get_frame_cupy", "get_frame_numpy", "get_frame_numpy_pipelined", "export", "export_blocking"):
        rows = [find(figures.link, f"py_gpu_link_{call}", way=way) for way in ("sluice.cuda_link", "cuda-link")]
        lines.append([f"`{call}`", *(time(row.get("p50_ns")) for row in rows)])
    return table(["call", "sluice.cuda_link", "cuda-link 1.12"], lines) + f"\n(commit {figures.link['commit']}; medians)\n"


# ---- two GPUs ----

def run_of(figures, commit):
    gpu, machine = figures["gpus"][0], figures["machine"]
    return f"({len(figures['gpus'])} x {gpu['name']}, driver {gpu['driver']}, {machine['cpu']}; commit {commit}; medians.)\n"


def far(figures):
    """Out of another GPU's slot, by the program and by acquire."""
    lines = []
    for size, kind in KINDS:
        copy, acquire = (find(figures.pair, f"gpu_far_{how}", size=size, type=kind) for how in ("copy", "acquire"))
        lines.append([f"{size}, {kind}", *pair(copy), speed(copy, "p50_ns"), *times(acquire, "p50_ns", "p99_ns")])
    return table(["RGBA", "a copy out of the slot, and its end", "bare", "is", "`acquire` with copies, p50", "p99"],
                 lines) + "\n" + run_of(figures.pair, commit_of_rows(figures.pair))


def fallbacks(figures):
    """What the call takes, and when another CPU sees it; facts of tests/gpu."""
    costs = {fact["call"]: fact for fact in figures.pair["facts"] if fact["fact"] == "cost"}
    rows = (("the stream writes a word: the driver's call alone", "cuStreamWriteValue64", None),
            ("- with all that Sluice does around it", "signal, context current", "signal seen by the CPU"),
            ("a function that the stream calls", "signal by a function", "signal by a function seen by the CPU"))
    cells = [[name, *(time(costs.get(key, {}).get(p)) for key in (call, seen) for p in ("p50_ns", "p99_ns"))]
             for name, call, seen in rows]
    return table(["a commit or release on a stream", "of the CPU, p50", "p99", "until a CPU sees it, p50", "p99"],
                 cells) + "\n" + run_of(figures.pair, figures.pair["commit"])


# ---- GStreamer ----

GST_SYSTEMS = {"limit": "one process: the limit", "sluice": "Sluice", "gstreamer-shm": "shmsink", "gstreamer-unixfd": "unixfdsink"}


def gstreamer(figures):
    made = figures.gstreamer
    machine = made["machine"]
    lines = [[f"{row['params']['size']}: {GST_SYSTEMS[row['params']['system']]}", *times(row, "p50_ns", "p95_ns", "p99_ns"),
              time(row["reader_cpu_ns"]), row.get("copied", NONE)]
             for row in made["rows"] if row["bench"] == "gst_latency"]
    absent = sorted({GST_SYSTEMS[each["system"]] for each in made["missing"] if each["bench"] == "gst_latency"})
    return (table(["60 pictures a second", "p50", "p95", "p99", "the reader's CPU for 240", "copied"], lines)
            + f"\n{machine['cpu']}, {machine['cores']} cores, load {machine['load']:.1f}{' (the pipelines at real-time priority)' if machine.get('real_time') else ''}; GStreamer {made['versions']['gstreamer']}"
            + f"{', which has no ' + ' and no '.join(absent) if absent else ''}; commit {made['commit']}.\n")


def gstreamer_decoder(figures):
    lines = []
    for row in figures.gstreamer["rows"]:
        if row["bench"] == "gst_decode" and row["params"]["system"] == "sluice":
            alone = find(figures.gstreamer, "gst_decode", system="limit", video=row["params"]["video"])
            lines.append([row["params"]["video"], f"{row['in_place']} of {row['frames']}", row["copied"] + row["reader_copied"],
                          f"{row['equal']} of {row['frames']}", f"{row['frames_per_s']}", f"{alone['frames_per_s']}"])
    return table(["4K, H.264 by `avdec_h264`", "in place", "copied, both sides", "equal to a direct decode", "pictures a second", "the decoder alone"], lines)


# ---- pages ----

BLOCKS = {each.__name__: each for each in (about_host, calls, peers, about, goals, kernels, kernels_python, kernels_quadrants, kernels_host, conversions,
                                           conversions_host, busy, copies, pipelined, readers, parked, torch, cuda_link,
                                           python, cuda_link_package, far, fallbacks, gstreamer, gstreamer_decoder, live_tables.live, live_tables.live_ways,
                                           live_tables.live_long, live_tables.watch)}


def page(text, figures):
    """The page with these figures in it, for the repository."""
    return BLOCK.sub(lambda at: at[1] + BLOCKS[at[2]](figures) + at[3], text)


def site_page(text, figures, pictures):
    """The page with all of its tables, and with the pictures of this folder."""
    text = SITE_TABLE.sub(lambda at: BLOCKS[at[1]](figures), text)
    return SITE_PICTURE.sub(lambda at: f"![{at[2]}]({pictures}/{at[1]}.svg)", text)
