# SPDX-License-Identifier: MIT
"""For tests of streams: each device, what looks like another library's stream, another thread."""
import ctypes
import gc
import threading

import pytest

from eventually import wait_until


@pytest.fixture(params=["host", "cuda:0"])
def device(request):
    if request.param != "host":
        request.getfixturevalue("gpu")
    yield request.param
    gc.collect()


class Foreign:
    """Another library's stream."""

    def __init__(self, native):
        self.native = native

    def __cuda_stream__(self):
        return 0, self.native


class TorchLike:
    def __init__(self, native):
        self.cuda_stream = native


class CupyLike:
    def __init__(self, native):
        self.ptr = native

    def wait_event(self, event):
        raise NotImplementedError


def on_thread(function):
    """What a function gives, or raises, on another thread."""
    told = []

    def run():
        try:
            told.append((function(), None))
        except BaseException as error:
            told.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if told[0][1]:
        raise told[0][1]
    return told[0][0]


def things(gpu):
    """What the fake driver still has of ours: streams and events."""
    class Things(ctypes.Structure):
        _fields_ = [(name, ctypes.c_long) for name in ("contexts", "streams", "events", "handles", "reservations",
                                                       "mappings", "registrations", "pinned", "modules", "graphs",
                                                       "allocations")]

    gpu.library.fake_things.restype = Things
    now = gpu.library.fake_things()
    return now.streams, now.events


def come_to_no_more(gpu, before):
    """Waits until there is nothing more than `before`. There may be less: what tests before this one left ends on its own threads."""
    wait_until(lambda: all(now <= then for now, then in zip(things(gpu), before)))
