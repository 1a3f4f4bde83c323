# SPDX-License-Identifier: MIT
"""Sluice's goals on a GPU, and the rows that show whether it meets them: for docs/benchmarks.md and the end of dev/gpu-check. A goal is
set for its first row; its other rows are the same with other sizes, under load or under MPS."""
import typing

from table import duration, said

PLAIN = {"busy": "none", "mps": False}
FULL = {"size": "1080p", "type": "float32"}
AWAKE = {"fill": "before", "sender": "awake"}


class Goal(typing.NamedTuple):
    what: str
    bench: str
    first: dict  # params of the row that the goal is set for
    all: dict  # params that all of its rows have


def only(what, bench, **params):
    return Goal(what, bench, params, params)


CHANNELS = (
    only("commit in place, CPU", "gpu_commit", readers=1, ahead=False),
    only("- 16 readers", "gpu_commit", readers=16, ahead=False),
    only("- 16 readers, all ahead, at rest", "gpu_commit", readers=16, ahead=True),
    only("- 16 readers that all acquire it ahead", "gpu_commit_ahead", readers=16),
    Goal("commit until another process's CPU sees it ready", "gpu_handoff_cpu", PLAIN, {}),
    Goal("commit until another process's stream continues, ahead", "gpu_handoff_gpu", {**PLAIN, "word": "device"}, {}),
    Goal("send 1080p RGBA float32 until it is seen ready", "gpu_send", {**PLAIN, **FULL, "from": "device", "graph": None}, {"graph": None}),
    Goal("- beside the bare graph", "gpu_send", {**PLAIN, **FULL, "from": "device", "graph": True}, {"graph": True}),
    Goal("- call by call", "gpu_send", {**PLAIN, **FULL, "from": "device", "graph": False}, {"graph": False}),
    Goal("acquire, a frame is ready, CPU", "gpu_acquire", {"mode": "newest"}, {}),
    Goal("acquire and release on a stream, CPU", "gpu_acquire_release", {"mode": "newest", "ahead": False}, {"ahead": False}),
    only("- ahead", "gpu_acquire_release", mode="newest", ahead=True),
    Goal("fetch 1080p RGBA float32 into pinned memory", "gpu_fetch", FULL, {}),
    Goal("- beside the CPU's work on each frame, one turn", "gpu_fetch_pipelined", {}, {}),
    Goal("a copy of 1080p float32 out of another GPU's slot", "gpu_far_copy", FULL, {}),
    only("a CPU reader asleep in acquire until it is awake", "gpu_sleeping", **{"in": "acquire"}),
    only("- asleep in poll", "gpu_sleeping", **{"in": "poll"}),
)
# Rows without a goal: what the driver alone takes for all that Sluice must do, where the limit does less.
BESIDE = {
    "commit until another process's stream continues, ahead": (
        only("- bare: a wait that is queued after the word", "gpu_limit_order", word="device", words=None, gives=None),
        only("- bare: a word in host memory, with which a CPU could end the wait", "gpu_limit_handoff_gpu", **PLAIN)),
    "acquire and release on a stream, CPU": (
        only("- bare: again and again in one process", "gpu_limit_acquire_release", ahead=False, processes=1),),
    "- ahead": (only("- bare: the wait and the write in two calls", "gpu_limit_acquire_release", ahead=True),),
    "Python: from put to a usable tensor, in place": (
        only("- bare: a word by the driver, the receiver spins", "py_gpu_put_to_usable", way="a word by the driver", wait="spinning", stream=None),
        only("- bare: and is woken", "py_gpu_put_to_usable", way="a word by the driver", wait="asleep")),
    "- by send": (
        only("- bare: a copy and a word, the receiver spins", "py_gpu_put_to_usable", way="a copy and a word by the driver", wait="spinning"),
        only("- bare: and is woken", "py_gpu_put_to_usable", way="a copy and a word by the driver", wait="asleep")),
}
KERNELS = (
    only("launch of a kernel with 4 arguments, CPU", "gpu_launch", stream="explicit"),
    only("- on the default stream", "gpu_launch", stream="default"),
    only("launch of a graph of 10 kernels, CPU", "gpu_graph_launch"),
    only("10 launches recorded again into the same graph, CPU", "gpu_graph_recapture"),
    only("launch with 4 KiB of host memory, copied in and out", "gpu_launch_host_array", memory="host"),
    only("a parallel section of 4 streams, empty, CPU", "gpu_fork_join"),
    only("a module loaded from the cache", "gpu_load_cached"),
)
CONVERSIONS = (
    only("convert NV12 to RGBA, 4K, beside a copy of as many bytes", "gpu_convert", **{"from": "nv12"}, to="rgba"),
    only("- RGBA to NV12", "gpu_convert", **{"from": "rgba"}, to="nv12"),
    only("- RGBA to BGRA", "gpu_convert", **{"from": "rgba"}, to="bgra"),
    only("convert 1080p RGBA to 3x512x512 float32, smooth", "gpu_convert", **{"from": "rgba"}, to="float32"),
    only("- float16", "gpu_convert", **{"from": "rgba"}, to="float16"),
    only("- of NV12, float32", "gpu_convert", **{"from": "nv12"}, to="float32"),
    only("- of NV12, float16", "gpu_convert", **{"from": "nv12"}, to="float16"),
)
CUDA_LINK = (
    only("cuda-link: an asynchronous send of 1080p float32, CPU", "gpu_cipd_send_call", **FULL, graph=False, blocking=False),
    only("- as a graph", "gpu_cipd_send_call", **FULL, graph=True, blocking=False),
    Goal("cuda-link: send until a reader knows that it is ready", "gpu_cipd_send", {**FULL, "graph": False, "blocking": False}, {}),
    Goal("cuda-link: the same in place", "gpu_cipd_handoff_cpu", {}, {}),
)
PYTHON = (
    only("Python: next(), a frame waits", "py_gpu_next"),
    only("- and frame.torch()", "py_gpu_next_torch"),
    only("- and frame.view()", "py_gpu_next_view"),
    Goal("Python: with writer.frame()", "py_gpu_writer_frame", {}, {}),
    only("- behind a stream", "py_gpu_writer_frame_stream"),
    only("- and frame.view()", "py_gpu_writer_frame_view"),
    Goal("Python: send(tensor)", "py_gpu_send", {"graph": None}, {}),
    Goal("Python: from put to a usable tensor, in place", "py_gpu_put_to_usable", {**AWAKE, "way": "sluice, in place", "stream": None},
         {"way": "sluice, in place"}),
    Goal("- by send", "py_gpu_put_to_usable", {**AWAKE, "way": "sluice, send", "stream": None}, {"way": "sluice, send"}),
    only("Python: launch of a kernel with 4 arguments", "py_gpu_kernel_launch", way="sluice", stream="explicit"),
    only("- on the default stream", "py_gpu_kernel_launch", way="sluice", stream="default"),
    only("- by `kernel.on(stream)`", "py_gpu_kernel_launch", way="sluice, Kernel.on()", stream="explicit"),
    only("- of the default stream", "py_gpu_kernel_launch", way="sluice, Kernel.on()", stream="default"),
    only("Python: convert 1080p RGBA to 3x512x512 float32, smooth", "py_gpu_convert", way="sluice", to="float32"),
    only("- float16", "py_gpu_convert", way="sluice", to="float16"),
    only("sluice.cuda_link: export, asynchronous, of a program that is awake", "py_gpu_link_export_awake", way="sluice.cuda_link", stream="default"),
    only("- get_frame", "py_gpu_link_get_frame", way="sluice.cuda_link"),
    only("- get_frame_numpy", "py_gpu_link_get_frame_numpy", way="sluice.cuda_link"),
    only("- get_frame_numpy, pipelined: the call", "py_gpu_link_get_frame_numpy_pipelined", way="sluice.cuda_link"),
)


def rows_of(figures, bench, params):
    """The value None stands for a param that the row does not have."""
    return [row for row in figures.get("rows", ()) if row["bench"] == bench and all(row["params"].get(key) == value for key, value in params.items())]


def find(figures, bench, **params):
    """The first row of a bench with these params; {} if it was not measured."""
    return next(iter(rows_of(figures, bench, params)), {})


def missed_by(row):
    over = row["p50_ns"] - row["goal_ns"]
    return f"missed by {duration(over)}, {100 * over / row['goal_ns']:.0f} %" if over > 0 else "missed: the CPU is too busy"


def params_of(row):
    """The params in which a row differs from other rows of its goal."""
    return ", ".join(f"{key} {said(value)}" for key, value in row["params"].items() if key == "graph" or key != "bytes" and value is not False)


def a_miss(row):
    """A missed goal in one line."""
    limit = row.get("limit_p50_ns")
    bare = "" if limit is None else f"; the bare limit is {duration(limit)}" + (", over the goal by itself" if limit > row["goal_ns"] else "")
    return f"MISSED {row['bench']} ({params_of(row)}): {duration(row['p50_ns'])}, goal {duration(row['goal_ns'])}{bare}"


def verdict(row, judged):
    word = "not measured" if not row else "" if "met" not in row else "met" if row["met"] else missed_by(row)
    more = f"of {len(judged)} such rows {sum(each['met'] for each in judged)} met" if len(judged) > 1 else ""
    return "; ".join(filter(None, (word, more)))


def print_goals(figures, out):
    """Prints each goal with its first row and how many of its rows meet it, then a line for each miss."""
    def line(what, row, word):
        times = (duration(row.get(key)) for key in ("p50_ns", "limit_p50_ns", "goal_ns"))
        print("{:66}{:>9} {:>9} {:>9}  {}".format(what, *times, word).rstrip(), file=out)

    misses = []
    print(f"{'goal':66}{'p50':>9} {'bare':>9} {'goal':>9}", file=out)
    for goal in (*CHANNELS, *KERNELS, *CONVERSIONS, *CUDA_LINK, *PYTHON):
        row = find(figures, goal.bench, **goal.first)
        judged = [each for each in rows_of(figures, goal.bench, goal.all) if "met" in each]
        line(goal.what, row, verdict(row, judged))
        for bare in BESIDE.get(goal.what, ()):
            found = find(figures, bare.bench, **bare.first)
            line(bare.what, {"limit_p50_ns": found.get("p50_ns")}, "")
        misses += [a_miss(each) for each in judged if not each["met"]]
    for row in rows_of(figures, "gpu_soak", {}):
        print(f"{row['params']['seconds']} s at full rate: {'flat' if row.get('flat') else 'NOT FLAT'}", file=out)
    print(*([""] if misses else []), *misses, sep="\n", end="\n" * bool(misses), file=out)
