# SPDX-License-Identifier: MIT
"""What bench/gpu/run measures: each case is a job of gpu-sluice, a job of gpu-limit, and the rows made of their samples."""
import typing

SIZES = {"64x64": (64, 64), "512x512": (512, 512), "1080p": (1920, 1080), "4K": (3840, 2160), "8K": (7680, 4320)}
BUSY = {"none": 0, "writer": 1, "reader": 2, "both": 3}
FROM = {"device": 1, "pinned": 2, "host": 3}
READERS = (1, 4, 16, 64)
US = 1000


class Out(typing.NamedTuple):
    """One row: the set of samples of each program, and a function from the limit to the goal in ns."""
    bench: str
    ours: str | None
    bare: str | None
    goal: typing.Callable[[float], float] | None = None


class Case(typing.NamedTuple):
    params: dict
    ours: str | None  # a line for gpu-sluice
    bare: str | None  # and for gpu-limit
    outs: tuple[Out, ...]
    turns: int | None = None  # None: bench/gpu/run's default
    seconds: float | None = None

    @property
    def names(self):
        return {out.bench for out in self.outs}


def job(name, **numbers):
    return " ".join([name, *(f"{key}={value}" for key, value in numbers.items() if value)])


def at_most(ns):
    return lambda limit: ns


def over_limit(ns):
    return lambda limit: limit + ns


def times_limit(factor):
    return lambda limit: limit * factor


def at_most_or_limit(ns):
    """Where the bare limit is above it by itself: the limit and 10 %."""
    return lambda limit: ns if limit <= ns else limit * 1.1


def share_of_speed(share):
    return lambda limit: limit / share


def frame(size, kind):
    width, height = SIZES[size]
    return {"width": width, "height": height, "is_float": int(kind == "float32")}


def frame_params(size, kind):
    width, height = SIZES[size]
    return {"size": size, "type": kind, "bytes": width * height * 4 * (4 if kind == "float32" else 1)}


SMALL = frame("512x512", "uint8")
FULL = frame("1080p", "float32")
KINDS = (("512x512", "uint8"), ("1080p", "uint8"), ("1080p", "float32"), ("4K", "float32"), ("8K", "float32"))


FREQUENT = 7  # turns of calls that take less than a us: they depend on what lies where in the caches, which stays the same in a turn
GROUP = 10  # launches that are timed together
BY_GRAPH = " graph=1"  # Sluice's default for sends


# ---- families ----

def commits():
    """With readers that do nothing, and with readers that wait ahead for each frame, which costs one more word for each."""
    goals = {(1, False): 1000, (16, False): 1100, (16, True): 2000}
    for readers in READERS:
        for ahead in (False, True):
            goal = goals.get((readers, ahead))
            yield Case({"readers": readers, "ahead": ahead},
                       job("commit", readers=readers, ahead=int(ahead), **SMALL),
                       job("calls", ops=1),
                       (Out("gpu_commit", "call", "call", goal and at_most(goal)), Out("gpu_begin", "begin", None)), FREQUENT if readers <= 16 else None)
        if readers <= 16:
            yield Case({"readers": readers}, job("acquire", until=1, ahead=1, gated=1, readers=readers, **SMALL),
                       job("crowd", ops=1 + readers, readers=readers),
                       (Out("gpu_commit_ahead", "commit", "call", at_most(2000) if readers == 16 else None),),
                       *((1, 1.5) if readers == 16 else ()))  # 17 processes share the GPU in time slices: each round takes long


def handoffs(mps):
    for busy, mask in BUSY.items():
        params = {"busy": busy, "mps": mps}
        cpu = job("handoff", busy=mask, **SMALL)
        yield Case(params, cpu, cpu, (Out("gpu_handoff_cpu", "seen", "seen", over_limit(500)),
                                      Out("gpu_handoff_commit", "call", "call")))
        ahead = job("handoff", until=1, ahead=1, busy=mask, **SMALL)
        yield Case({**params, "word": "device"}, ahead, ahead + " in_device=1",
                   (Out("gpu_handoff_gpu", "seen", "seen", over_limit(700)),))
        if busy == "none":
            yield Case({**params, "word": "host"}, None, ahead, (Out("gpu_limit_handoff_gpu", None, "seen"),))
        launch = job("handoff", until=1, busy=mask, **SMALL)
        yield Case(params, launch, launch, (Out("gpu_handoff_launch", "seen", "seen"),))
        parked = ahead + " gated=1"
        if mps:  # Sluice lets no stream wait ahead
            yield Case(params, None, parked, (Out("gpu_limit_handoff_parked", None, "seen"),))
        else:
            yield Case(params, parked, parked, (Out("gpu_handoff_parked", "seen", "seen"),))
        send = job("handoff", **{"from": FROM["device"]}, busy=mask, **FULL)
        yield Case({**params, "from": "device", **frame_params("1080p", "float32")}, send + BY_GRAPH, send,
                   (Out("gpu_send", "seen", "seen", over_limit(1500)), Out("gpu_send_call", "call", "call")))


def graphs():
    """Sends as graphs beside the same graph bare, and call by call. In the other families graphs are compared with single calls."""
    for size, kind in (("512x512", "uint8"), ("1080p", "float32")):
        line = job("handoff", **{"from": FROM["device"]}, **frame(size, kind))
        params = {"busy": "none", "mps": False, "from": "device", "graph": True, **frame_params(size, kind)}
        yield Case({**params, "graph": False}, line, line,
                   (Out("gpu_send", "seen", "seen", over_limit(1500)), Out("gpu_send_call", "call", "call")))
        yield Case(params, line + BY_GRAPH, line + BY_GRAPH,
                   (Out("gpu_send", "seen", "seen", over_limit(1500)), Out("gpu_send_call", "call", "call")))
        yield Case({**params, "word": "behind it"}, None, line + " graph=2",
                   (Out("gpu_limit_send", None, "seen"), Out("gpu_limit_send_call", None, "call")))


def cuda_link():
    """The same by cuda-link's protocol, beside a copy and an event that is queried: asynchronous and blocking exports, with and
    without graphs."""
    for size, kind in ((size, kind) for size in ("512x512", "1080p", "4K") for kind in ("uint8", "float32")):
        for blocking in (False, True):
            for graph in (False, True):
                numbers = {"from": FROM["device"], "cipd": 1 + blocking, "graph": 2 * graph, **frame(size, kind)}
                params = {"busy": "none", "mps": False, "from": "device", "graph": graph, "blocking": blocking,
                          **frame_params(size, kind)}
                call = at_most(4 * US) if (size, kind, blocking) == ("1080p", "float32", False) else None
                yield Case(params, job("handoff", **numbers), job("events", **numbers),
                           (Out("gpu_cipd_send", "seen", "seen", over_limit(2 * US)), Out("gpu_cipd_send_call", "call", "call", call)),
                           None if (size, kind) == ("1080p", "float32") else 2)
    line = {"cipd": 1, **SMALL}
    yield Case({"busy": "none", "mps": False}, job("handoff", **line), job("events", **line),
               (Out("gpu_cipd_handoff_cpu", "seen", "seen", over_limit(2 * US)), Out("gpu_cipd_commit", "call", "call")))


def sends():
    for size, kind in KINDS:
        for source in FROM:
            if (size, kind) != ("1080p", "float32") and source != "device":
                continue
            if (size, kind, source) == ("1080p", "float32", "device"):
                continue  # among the handoffs
            line = job("handoff", **{"from": FROM[source]}, **frame(size, kind))
            goal = over_limit(1500) if source == "device" else None
            yield Case({"busy": "none", "mps": False, "from": source, **frame_params(size, kind)}, line + BY_GRAPH, line,
                       (Out("gpu_send", "seen", "seen", goal), Out("gpu_send_call", "call", "call")))


def acquires():
    """In a process that has waited for another's frames, like the bare calls. Rows without a goal: the bare write repeated in one
    process, with everything in its caches; and the wait and the write in two calls."""
    both = over_limit(400)
    yield Case({"mode": "newest", "ahead": False}, job("acquire", until=1, **SMALL), job("answers"),
               (Out("gpu_acquire", "acquire", None, at_most(300)), Out("gpu_acquire_release", "both", "call", both)), FREQUENT)
    yield Case({"mode": "in order", "ahead": False, "batch": 16},
               job("acquire", until=1, in_order=1, group=16, **SMALL), job("answers", group=16),
               (Out("gpu_acquire", "acquire", None, at_most(300)), Out("gpu_acquire_release", "both", "call", both)), FREQUENT)
    yield Case({"mode": "newest", "ahead": True}, job("acquire", until=1, ahead=1, gated=1, **SMALL),
               job("answers", ahead=1, gated=1),
               (Out("gpu_acquire_release", "both", "call", over_limit(500)),), FREQUENT)
    for params, line in (({"ahead": True, "calls": 2}, job("answers", ahead=1, gated=1, apart=1)),
                         ({"ahead": False, "processes": 1}, job("calls"))):
        yield Case({"mode": "newest", **params}, None, line, (Out("gpu_limit_acquire_release", None, "call"),), FREQUENT)


def fetches():
    for size, kind in KINDS:
        line = job("fetch", **frame(size, kind))
        yield Case(frame_params(size, kind), line, line, (Out("gpu_fetch", "call", "call", share_of_speed(0.97)),),
                   *((1, 0.3) if size in ("4K", "8K") else ()))  # pinning their memory takes longer than a turn


def pipelines(copy_ns):
    """The CPU works on each frame for half, one and two times as long as a copy takes."""
    for share in (0.5, 1, 2):
        work = int(copy_ns * share)
        line = job("pipeline", work=work, **FULL)
        yield Case({"work_ns": work, **frame_params("1080p", "float32")}, line, line,
                   (Out("gpu_fetch_pipelined", "loop", "loop", at_most(max(copy_ns, work) / 0.97)),))


def kernels():
    """In one process, on one stream."""
    def case(name, params, line, goal, *more):
        return Case(params, line, line, (Out(name, "call", "call", goal),), *more)

    for number, stream in enumerate(("explicit", "default")):
        yield case("gpu_launch", {"stream": stream, "arguments": 4}, job("launch", group=GROUP, is_default=number), times_limit(1.15), FREQUENT)
    yield case("gpu_graph_launch", {"launches": 10}, job("graph", group=GROUP), times_limit(1.15), FREQUENT)
    yield case("gpu_graph_recapture", {"launches": 10}, job("recapture"), times_limit(1.3))
    for memory, goal in (("host", times_limit(1.3)), ("pinned", None)):
        yield case("gpu_launch_host_array", {"memory": memory, "bytes": 4096}, job("staged", **{"from": FROM[memory]}), goal)
    yield case("gpu_fork_join", {"streams": 4}, job("fork"), times_limit(1.3))
    yield case("gpu_load_cached", {}, job("load"), at_most_or_limit(2000 * US), 3, 0.5)


# By their numbers in sluice_convert.c: source, target, bits of a tensor's element.
CONVERSIONS = (("nv12", "rgba", 0), ("rgba", "nv12", 0), ("rgba", "bgra", 0), ("rgba", "float32", 32), ("rgba", "float16", 16),
               ("nv12", "float32", 32), ("nv12", "float16", 16))
PIXEL_BYTES = {"nv12": 1.5, "rgba": 4, "bgra": 4}


def conversions():
    """Beside a copy that reads and writes as many bytes: half of them each. A tensor is 3 x 512 x 512, from 1080p. Small ones show what the calls take."""
    for small in (False, True):
        for number, (source, target, bits) in enumerate(CONVERSIONS):
            size = "64x64" if small else "1080p" if bits else "4K"
            width, height = SIZES[size]
            side = min(512, height // 2)
            written = 3 * side * side * bits // 8 if bits else width * height * PIXEL_BYTES[target]
            copied = int(width * height * PIXEL_BYTES[source] + written) // 2
            pixels = {"width": width, "height": height, "group": 20}
            yield Case({"from": source, "to": target, "size": size, "bytes": copied}, job("convert", conversion=number, **pixels),
                       job("convert", bytes=copied, group=20),
                       (Out("gpu_convert_small" if small else "gpu_convert", "call", "call",
                            None if small else share_of_speed(0.35 if bits else 0.8)),))


def batches():
    for ops in (1, 2, 4, 8, 16, 17):
        yield Case({"ops": ops}, None, job("handoff", ops=ops), (Out("gpu_limit_writes", None, "seen"),
                                                                 Out("gpu_limit_writes_call", None, "call")))


DRIVER_CALLS = ("none", "a context's id", "push and pop a context", "exchange the capture mode, and back", "is a stream capturing",
                "a pointer's buffer, by one attribute", "- by a list of attributes", "write a word", "write two words",
                "a copy of GPU memory", "- of any memory", "a copy of GPU memory into a slot", "- of any memory into a slot",
                "wait for a word", "record an event", "ask for an event that is over", "launch a graph of a copy")


def driver_calls():
    for number, call in enumerate(DRIVER_CALLS):
        yield Case({"call": call}, None, job("driver", call=number, **SMALL), (Out("gpu_limit_driver", None, "call"),), 1)


def orders():
    """How the order of words and of calls matters to a stream that waits for another process's word, and to sends."""
    ahead = job("handoff", until=1, ahead=1)
    late = {"waits": "once it is on its way"}
    for params, numbers in (({"word": "host", "words": 2, "waits for": "the first"}, "ops=2 first=1"),
                            ({"word": "host", "words": 2, "waits for": "the last"}, "ops=2"),
                            ({"word": "host", **late}, "late=1"),
                            ({"word": "device", **late}, "late=1 in_device=1"),
                            ({"word": "host", **late, "gives": True}, "late=1 gives=1")):
        yield Case(params, None, f"{ahead} {numbers}", (Out("gpu_limit_order", None, "seen"),))
    yield Case({"launched": True, "gives": True}, None, job("handoff", until=1, gives=1), (Out("gpu_limit_order", None, "seen"),))
    both = Out("gpu_limit_order", None, "seen"), Out("gpu_limit_order_call", None, "call")
    for size, kind in (("512x512", "uint8"), ("1080p", "float32")):
        params = {"from": "device", **frame_params(size, kind)}
        line = job("handoff", **{"from": FROM["device"]}, **frame(size, kind))
        yield Case({**params, "into": "a slot"}, None, f"{line} in_slot=1", both)
        for graphs, words in ((4, 1), (1, 2), (4, 2)):
            yield Case({**params, "graphs": graphs, "words": words}, None, f"{line} graph=1 slots={graphs} ops={words}", both)


def many_readers():
    for readers in READERS:
        yield Case({"readers": readers, "reader": "sleeping"}, job("handoff", readers=readers, sleeping=1, **SMALL), None,
                   (Out("gpu_readers_waiting", "seen", None), Out("gpu_readers_waiting_commit", "call", None)), 1)


def parked():
    for busy in ("none", "both"):
        for streams in range(9):
            numbers = {"parked": streams, "busy": BUSY[busy]}
            ours = job("parked", in_order=1, **numbers, **SMALL) if streams <= 4 else None
            yield Case({"asked": streams, "busy": busy}, ours, job("parked", **numbers),
                       (Out("gpu_parked", "seen", None), Out("gpu_limit_parked", None, "seen")), 1, 0.25)


def sleepers():
    for way, number in (("acquire", 1), ("poll", 2)):
        yield Case({"in": way, "work_ns": 3_000_000}, job("sleeping", sleeping=number, **SMALL), job("sleeping"),
                   (Out("gpu_sleeping", "wake", "wake", at_most(100 * US)),), 1, 1.0)


def far():
    """With a reader on another GPU, which can reach the memory of the channel's GPU."""
    params = {"busy": "none", "mps": False, "reader": "another GPU"}
    ahead = job("handoff", until=1, ahead=1, far=1, **SMALL)
    yield Case({**params, "word": "host"}, ahead, ahead, (Out("gpu_handoff_gpu", "seen", "seen", over_limit(700)),))
    launch = job("handoff", until=1, far=1, **SMALL)
    yield Case(params, launch, launch, (Out("gpu_handoff_launch", "seen", "seen"),))
    for size, kind in KINDS:
        line = job("far", far=1, **frame(size, kind))
        yield Case(frame_params(size, kind), line, line, (Out("gpu_far_copy", "call", "call", share_of_speed(0.97)),))
        yield Case(frame_params(size, kind), line + " staged=1", line, (Out("gpu_far_acquire", "call", "call"),))


# Allowed growth between the first tenth of a soak and its end. A process may touch some pages for the first time that late, but a leak
# of one byte a frame is several MiB in a minute. All GPU memory is allocated in the first tenth.
MOST_GROWTH = {"fd_growth": 0, "memory_growth_bytes": 1 << 20, "gpu_memory_growth_bytes": 0}


def is_flat(row):
    return all(row[key] <= most for key, most in MOST_GROWTH.items())


def soak(seconds):
    return Case({"seconds": seconds, "readers": 2}, job("soak", readers=2, **FULL), None,
                (Out("gpu_soak", "frame", None),), 1, seconds)


def plain(copy_ns):
    """In the order of measuring. Cases with many processes come last, because the processes stay."""
    for family in (handoffs(False), sends(), graphs(), kernels(), conversions(), cuda_link(), batches(), orders(), driver_calls(), acquires(), fetches(),
                   pipelines(copy_ns), sleepers(), parked(), commits(), many_readers()):
        yield from family
