# SPDX-License-Identifier: MIT
"""Which streams count, where three are at hand: the one that is given, the thread's, and the framework's current one. Each has a gate
that keeps its work from ending, so it shows which of them the end of a frame or a copy is behind, and which it is not."""
import contextlib
import time

import pytest

import sluice
from dl import take
from eventually import wait_until
from gpu_arrays import CudaInterface
from gpu_frames import SIZE, free_slots, publish, reader, writer  # noqa: F401
from gpu_pair import memory, torch  # noqa: F401

NAMED = {"nothing": "", "given": "g", "entered": "e", "both": "g"}  # the first in the order, and no other
TAKES = {  # which streams it adds to what was named, and to nothing
    "nobody": ("", ""), "torch": ("f", "f"), "view": ("f", "f"), "dlpack": ("f", "f"), "dlpack, no stream": ("", "f"),
    "interface": ("", "f")}


class Streams:
    """g: given, e: entered, f: the framework's."""

    def __init__(self, gpu, torch):
        self.gpu = gpu
        self.native = {name: gpu.stream() for name in "gef"}
        self.ours = {name: sluice.Stream.from_handle(native, gpu.device) for name, native in self.native.items()}
        torch.current[0] = self.native["f"]

    def shut(self):
        self.gates = {name: self.gpu.gate(native) for name, native in self.native.items()}

    def entered(self, named):
        return self.ours["e"].use() if named in ("entered", "both") else contextlib.nullcontext()

    def given(self, named):
        return {"stream": self.ours["g"]} if named in ("given", "both") else {}

    def take(self, frame, how):
        if how in ("torch", "view"):
            return getattr(frame, how)()
        if how.startswith("dlpack"):
            return take(frame, -1 if how != "dlpack" else self.native["f"])
        return frame.__cuda_array_interface__ if how == "interface" else None

    def check_behind(self, names, is_done):
        """It is done when all these have got on, and not before; the others stand still meanwhile."""
        for name in names:
            for _ in range(3):
                assert not is_done(), f"{name} was not waited for"
                time.sleep(0.002)
            self.gates.pop(name).open()
        wait_until(is_done)
        for gate in self.gates.values():
            gate.open()


@pytest.fixture
def streams(gpu, torch):  # noqa: F811
    return Streams(gpu, torch)


def expected(named, how):
    first = NAMED[named]
    return first + TAKES[how][0 if first else 1]


@pytest.mark.parametrize("how", TAKES)
@pytest.mark.parametrize("named", NAMED)
def test_a_release_is_behind_these(gpu, writer, reader, streams, named, how):  # noqa: F811
    publish(gpu, writer, 1)
    with streams.entered(named):
        frame = reader.next(timeout=60, **streams.given(named))
        taken = streams.take(frame, how)
    slot = frame.slot
    publish(gpu, writer, 2)  # it is not the newest any more
    streams.shut()
    del taken
    frame.release()
    streams.check_behind(expected(named, how), lambda: slot in free_slots(writer))


@pytest.mark.parametrize("end", ["commit", "cancel"])
@pytest.mark.parametrize("how", TAKES)
@pytest.mark.parametrize("named", NAMED)
def test_a_writers_frame_ends_behind_these(gpu, writer, reader, streams, named, how, end):  # noqa: F811
    with streams.entered(named):
        frame = writer.frame(**streams.given(named))
        taken = streams.take(frame, how)
    slot = frame.slot
    streams.shut()
    del taken
    getattr(frame, end)()
    streams.check_behind(expected(named, how),
                         (lambda: reader.latest() is not None) if end == "commit" else lambda: slot in free_slots(writer))


@pytest.mark.parametrize("how, behind", [("torch", "f"), ("dlpack", "f"), ("interface", "e"), ("dlpack, no stream", "e")])
def test_a_stream_that_is_entered_later_counts_for_whom_names_none(gpu, writer, reader, streams, how, behind):  # noqa: F811
    """The thread's stream is looked up when the reader takes the frame, and again if no stream is named by then."""
    publish(gpu, writer, 1)
    frame = reader.next(timeout=60)
    with streams.entered("entered"):
        taken = streams.take(frame, how)
    slot = frame.slot
    publish(gpu, writer, 2)
    streams.shut()
    del taken
    frame.release()
    streams.check_behind(behind, lambda: slot in free_slots(writer))


@pytest.mark.parametrize("end", ["release", "commit", "cancel"])
def test_used_on_adds_to_what_was_named(gpu, writer, reader, streams, end):  # noqa: F811
    publish(gpu, writer, 1)
    named = streams.given("given")
    frame = reader.next(timeout=60, **named) if end == "release" else writer.frame(**named)
    frame.used_on(streams.ours["e"], streams.ours["f"])
    slot = frame.slot
    if end == "release":
        publish(gpu, writer, 2)
    else:
        reader.next(timeout=60).release()
    streams.shut()
    getattr(frame, end)()
    streams.check_behind("gef", (lambda: reader.latest() is not None) if end == "commit" else lambda: slot in free_slots(writer))


@pytest.mark.parametrize("kind", ["torch", "nobody's"])
@pytest.mark.parametrize("named", NAMED)
def test_a_copy_is_queued_on_the_first_of_them(gpu, writer, reader, memory, torch, streams, named, kind):  # noqa: F811
    """And waits for the framework that made the array, on whatever stream it works; never for the thread's if one was given."""
    source = memory(size=SIZE)
    array = torch.Tensor(source, (SIZE,)) if kind == "torch" else CudaInterface(source, (SIZE,))
    streams.shut()
    with streams.entered(named):
        writer.send(array, **streams.given(named))
    streams.check_behind(NAMED[named] + ("f" if kind == "torch" else ""), lambda: reader.latest() is not None)


@pytest.mark.parametrize("named", NAMED)
def test_a_copy_into_a_tensor_is_queued_on_the_first_of_them(gpu, writer, reader, memory, torch, streams, named):  # noqa: F811
    target = memory(size=SIZE)
    publish(gpu, writer, 1)
    frame = reader.next(timeout=60)
    slot = frame.slot
    publish(gpu, writer, 2)
    streams.shut()
    with streams.entered(named):
        frame.copy_to(torch.Tensor(target, (SIZE,)), **streams.given(named))
    frame.release()
    streams.check_behind(NAMED[named] + "f", lambda: slot in free_slots(writer))
