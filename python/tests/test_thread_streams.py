# SPDX-License-Identifier: MIT
"""The native stream 2 is a different one on each thread: which one a frame's end waits for."""
import threading

import pytest

import sluice
from dl import take
from gpu_frames import ends_only_then, publish, reader, writer  # noqa: F401

PER_THREAD = 2


class Taker(threading.Thread):
    """Takes frames for its own default stream, on which it works, until it is stopped."""

    def __init__(self, gpu, frame):
        super().__init__()
        self.gpu, self.frame = gpu, frame
        self.taken, self.gate = None, None
        self.ready, self.go = threading.Event(), threading.Event()

    def run(self):
        self.gpu.enter()
        self.taken = take(self.frame, PER_THREAD)
        self.gate = self.gpu.gate(PER_THREAD)
        self.ready.set()
        self.go.wait()

    def __enter__(self):
        self.start()
        self.ready.wait()
        return self

    def __exit__(self, *_):
        self.go.set()
        self.join()


@pytest.mark.parametrize("also", ["alone", "with another stream", "and another thread's"])
def test_a_frame_ends_behind_the_stream_of_the_thread_that_took_it(gpu, writer, reader, also):  # noqa: F811
    publish(gpu, writer, 5)
    frame = reader.next(timeout=60)
    slot = frame.slot
    with Taker(gpu, frame) as taker:
        gates = []
        if also == "with another stream":
            stream = gpu.stream()
            frame.used_on(sluice.Stream.from_handle(stream, gpu.device))
            gates.append(gpu.gate(stream))
        if also == "and another thread's":
            taken = take(frame, PER_THREAD)
            gates.append(gpu.gate(PER_THREAD))
            taken.drop()
        taker.taken.drop()
        frame.release()  # here, where 2 is another stream
        publish(gpu, writer, 6)
        ends_only_then(writer, slot, [*gates, taker.gate])


def test_the_cuda_array_interface_names_no_other_threads_stream(gpu, writer):  # noqa: F811
    """2 is another stream here: it names one that waits for that thread's."""
    frame = writer.frame()
    with Taker(gpu, frame) as taker, sluice.Stream(gpu.device).use():
        named = frame.__cuda_array_interface__["stream"]
        assert named != PER_THREAD and not gpu.is_idle(named)
        taker.gate.open()
        gpu.synchronize(named)
        taker.taken.drop()
    frame.cancel()


def test_on_its_own_thread_it_is_as_any_other(gpu, writer, reader):  # noqa: F811
    publish(gpu, writer, 5)
    frame = reader.next(timeout=60)
    slot = frame.slot
    taken = take(frame, PER_THREAD)
    gate = gpu.gate(PER_THREAD)
    taken.drop()
    frame.release()
    publish(gpu, writer, 6)
    ends_only_then(writer, slot, [gate])
