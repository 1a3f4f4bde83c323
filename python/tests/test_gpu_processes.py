# SPDX-License-Identifier: MIT
"""Channels on a GPU among threads, processes and signals, and at an interpreter's end: test_processes.py has the same on host."""
import asyncio
import ctypes
import multiprocessing
import os
import pathlib
import threading

import pytest

import sluice
from dl import take
from eventually import STARTS
from gpu_frames import SIZE, publish
from test_processes import FORKS

KIT = f"""
import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import gpu_kit; gpu_kit.find(); gpu = gpu_kit.Gpu()
"""


# ---- threads ----

def on_threads(count, work):
    """Runs work(number) on so many threads; what they raise fails the test."""
    errors = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_thread_without_a_context_moves_whole_frames(gpu):
    """The specification's 22, with frames: it has no context afterwards either."""
    content = bytes(range(256)) * (SIZE // 256)

    async def fetch(frame):
        return await frame.fetch()

    def current():
        context = ctypes.c_void_p()
        gpu.call("CtxGetCurrent", ctypes.byref(context))
        return context.value

    def work(_):
        target = bytearray(SIZE)
        assert current() is None
        with sluice.Writer("cam", shape=SIZE, device=gpu.device) as writer, sluice.Reader("cam") as reader:
            with writer.frame() as begun:
                begun.used_on(sluice.Stream.default(gpu.device))
                begun.cancel()
            writer.send(content)
            with sluice.Stream(gpu.device) as stream, reader.next(timeout=60, stream=stream) as frame:
                take(frame, stream.native).drop()
                frame.copy_to(target)
                found = [frame.numpy().tobytes(), frame.copy().tobytes(), asyncio.run(fetch(frame)).tobytes(), bytes(target)]
                assert current() is None
        assert found == [content] * 4 and current() is None

    assert current()
    on_threads(1, work)


def test_a_frame_is_copied_on_its_stream_while_others_are_named(gpu):
    """The place of a frame's streams moves as they become more: without a GIL, while the first of them is looked up."""
    streams = [sluice.Stream(gpu.device) for _ in range(40)]
    target = bytearray(SIZE)

    def work(number):
        if number == 0:
            while not named.is_set():
                frame.copy_to(target)
            return
        for stream in streams[1:]:
            frame.used_on(stream)
        named.set()

    with sluice.Writer("cam", shape=SIZE, device=gpu.device) as writer, sluice.Reader("cam") as reader:
        for value in range(1, 21):
            writer.send(bytes([value]) * SIZE)
            named = threading.Event()
            with reader.next(timeout=60, stream=streams[0]) as frame:
                on_threads(2, work)
                frame.copy_to(target)
            assert target == bytes([value]) * SIZE


def test_threads_share_one_writer_and_one_reader(gpu):
    """Each works on a stream of its own. Frames are whole, and each goes to one reader."""
    count, each, got = 4, 50, []
    with (sluice.Writer("cam", shape=SIZE, device=gpu.device, policy="wait", wait=60, slots=16, max_slots=16) as writer,
          sluice.Reader("cam", mode="in_order", hold=8) as reader):
        streams = [gpu.stream() for _ in range(2 * count)]
        handles = [sluice.Stream.from_handle(stream, gpu.device) for stream in streams]

        def write(which):
            for number in range(each):
                value = 1 + which * each + number
                with writer.frame(stream=handles[which], meta=bytes([value])) as frame:
                    gpu.fill(take(frame, streams[which]).data, value, SIZE, streams[which])

        def read(which):
            found = []
            for _ in range(each):
                with reader.next(timeout=60, stream=handles[which]) as frame:
                    found.append((frame.meta[0], gpu.look(take(frame, streams[which]).data, SIZE, streams[which])))
            gpu.synchronize(streams[which])
            assert all(bytes(content) == bytes([value]) * SIZE for value, content in found)
            got.extend(value for value, _ in found)

        def work(which):
            gpu.enter()
            (write if which < count else read)(which)

        on_threads(2 * count, work)
        assert sorted(got) == list(range(1, 1 + count * each)) and writer.stats().dropped == 0


# ---- processes ----

def spawned(folder, answers):
    os.environ["SLUICE_DIR"] = folder  # a server that forks may have another test's
    with sluice.Reader("cam", mode="in_order", wait=60) as reader:
        answers.put("open")
        answers.put([(frame.device, int(frame.numpy()[-1])) for _, frame in zip(range(3), reader)])


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing(gpu, folder, method):
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    with sluice.Writer("cam", shape=SIZE, device=gpu.device, policy="wait", wait=60) as writer:
        process = context.Process(target=spawned, args=(folder, answers))
        process.start()
        assert answers.get(timeout=STARTS) == "open"
        for value in range(3):
            publish(gpu, writer, value)
        assert answers.get(timeout=STARTS) == [(gpu.device, value) for value in range(3)]
        process.join(STARTS)
        assert process.exitcode == 0


def test_a_forked_child_is_told(gpu, run):
    out = run("""
import gc, os, sluice
writer = sluice.Writer("cam", shape=4, device="cuda:0"); reader = sluice.Reader("cam", hold=3)
writer.send(bytes(4))
stream = sluice.Stream("cuda:0"); event = stream.record()
frame = reader.next(stream=stream); begun = writer.frame(stream=stream)
array = frame.numpy(); capsule = frame.__dlpack__(stream=1)
pid = os.fork()
if pid == 0:
    told = 0
    for call in (reader.next, reader.latest, reader.stats, reader.fileno, writer.frame, lambda: writer.send(bytes(4)),
                 lambda: sluice.Reader("cam"), lambda: sluice.Writer("b", shape=3, device="cuda:0"), begun.commit, frame.numpy,
                 lambda: frame.__dlpack__(stream=1), lambda: sluice.Stream("cuda:0"), stream.synchronize, stream.query,
                 event.query, lambda: sluice.synchronize("cuda:0"), lambda: sluice.reset("cuda:0")):
        try:
            call()
        except sluice.ForkedError as error:
            assert "spawn" in str(error), error
            told += 1
    del call, frame, begun, array, capsule, reader, writer, stream, event
    gc.collect()
    print("child", told, flush=True)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
begun.cancel()
writer.send(b"abcd")
assert reader.next().numpy().tobytes() == b"abcd" and array.tolist() == [0] * 4
print("parent goes on")
""", env=FORKS)
    assert out == "child 17\nparent goes on\n"


# ---- signals, the end ----

@pytest.mark.parametrize("wait", ["reader.next()", "next(reader)", "[writer.frame(timeout=9999) for _ in range(9)]",
                                  "asyncio.run(reader.next_async())"])
def test_ctrl_c_ends_a_wait(gpu, run, wait):
    """Where a frame is committed, too, and the GPU is not done with it."""
    out = run(KIT + f"""
import asyncio, os, signal, sluice, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests may ignore it
writer = sluice.Writer("cam", shape=4, device="cuda:0", slots=3, max_slots=3); reader = sluice.Reader("cam")
stream = gpu.stream(); gate = gpu.gate(stream)
writer.frame(stream=sluice.Stream.from_handle(stream, "cuda:0")).commit()
try:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    {wait}
except KeyboardInterrupt:
    print("interrupted")
gate.open()
""")
    assert out == "interrupted\n"


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "del reader", "gc.disable()", "raise SystemExit", "keep.append(keep)"])
def test_the_interpreter_ends_with_everything_live(gpu, run, end):
    """Frames that are begun, held, on their way and waited for; a stream that was entered, a copy under way."""
    out = run(KIT + f"""
import asyncio, gc, threading, time, sluice, numpy as np
from dl import take
writer = sluice.Writer("cam", shape=(64, 64), device="cuda:0")
reader, other, ahead = (sluice.Reader("cam", hold=3, ahead=each) for each in (False, False, True))
writer.send(np.ones((64, 64), "u1"))
entered, late = sluice.Stream("cuda:0"), sluice.Stream("cuda:0")
entered.__enter__()
frame = reader.next(timeout=60); array = frame.numpy(); capsule = frame.__dlpack__(stream=1)
taken = take(frame, entered.native); interface = frame.__cuda_array_interface__
begun = writer.frame(); mine = take(begun, 1); event = entered.record()
gate = gpu.gate(late.native)
writer.frame(stream=late).commit()
threading.Timer(0.3, gate.open).start()
copying = frame.fetch(); copying.close()
keep = [frame, array, capsule, taken, begun, mine, reader, writer, entered, late, event]; other.fileno()
for wait in (sluice.Reader("cam", wait=None, mode="in_order").next, lambda: [None for _ in other],
             lambda: ahead.next(stream=late), late.synchronize):
    threading.Thread(target=wait, daemon=True).start()
time.sleep(0.05)
print("end", flush=True)
{end}
""")
    assert out == "end\n"


def test_a_fresh_interpreter_inside(gpu, run):
    out = run("""
import sluice
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
code = '''
import sluice
with (sluice.Writer("inner", shape=4, device="cuda:0") as writer, sluice.Reader("inner") as reader,
      sluice.Stream("cuda:0") as stream):
    with writer.frame():
        pass
    with reader.next(timeout=60) as frame:
        assert frame.device == "cuda:0" and stream.query()
'''
with sluice.Writer("outer", shape=4, device="cuda:0") as writer:
    for _ in range(3):
        inner = interpreters.create()
        failed = interpreters.run_string(inner, code)
        assert not failed, failed
        interpreters.destroy(inner)
    writer.send(bytes(4))
print("well")
""")
    assert out == "well\n"
