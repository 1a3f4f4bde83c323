# SPDX-License-Identifier: MIT
"""Several processes, some of which are killed; multiprocessing, subprocess, fork, threads."""
import concurrent.futures
import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import sluice
from eventually import SECONDS, STARTS, comes_to, wait_until

HERE = os.path.dirname(__file__)


def test_every_frame_in_order_and_whole(start):
    writer = start("write", "cam", 2000)
    writer.expect("open")
    reader = start("read", "cam", "in_order")
    reader.expect("open")
    writer.expect("written")
    writer.write("close")
    reader.expect("2000 0 True")
    assert writer.wait() == 0 and reader.wait() == 0


def test_newest_from_a_writer_that_does_not_wait(start):
    writer = start("write_for_ever", "cam")
    writer.expect("open")
    with sluice.Reader("cam", wait=60) as reader:
        last = 0
        for frame, _ in zip(reader, range(2000)):
            assert frame.sequence > last
            last = frame.sequence
            assert (frame.numpy() == int(frame.meta) % 251).all()


def test_a_killed_writer_leaves_its_frames_and_comes_back(start):
    reader = sluice.Reader("cam", wait=None)
    sessions = []
    kept = []
    for _ in range(5):
        writer = start("write_for_ever", "cam")
        writer.expect("open")
        while True:
            frame = reader.next(timeout=60)
            assert (frame.numpy() == int(frame.meta) % 251).all()
            if frame.new_session or not sessions:
                break
            frame.release()
        sessions.append(frame.session)
        number, array = int(frame.meta), frame.numpy()
        kept = [(number, array)]
        writer.kill()
        assert (array == number % 251).all()
        with pytest.raises(sluice.NoWriter):
            while True:  # its death may be seen later than its last frame
                with contextlib.suppress(sluice.Timeout):
                    reader.next(timeout=0.2).release()
        del frame, array
        kept.clear()
    assert len(set(sessions)) == 5 and kept == []


def test_for_goes_on_after_a_kill(start):
    seen = []

    def restart():
        time.sleep(0.2)
        first.kill()
        seen.append(start("write_for_ever", "cam"))

    first = start("write_for_ever", "cam")
    first.expect("open")
    reader = sluice.Reader("cam")
    reader.next(timeout=60).release()
    thread = threading.Thread(target=restart)
    thread.start()
    sessions = 0
    for frame in reader:
        sessions += frame.new_session
        assert (frame.numpy() == int(frame.meta) % 251).all()
        if sessions:
            break
    thread.join()


def test_killed_readers_cost_the_writer_nothing(start):
    with sluice.Writer("cam", shape=(256, 256)) as writer:
        count = 0
        for _ in range(4):
            children = [start("read_for_ever", "cam") for _ in range(2)]
            for child in children:
                child.expect("open")
            until = time.monotonic() + 0.2
            while time.monotonic() < until:
                count += 1
                with writer.frame(timeout=60, meta=str(count).encode()) as frame:
                    frame.numpy()[...] = count % 251
            for child in children:
                assert child.process.poll() is None
                child.kill()
        wait_until(lambda: writer.stats().readers == 0)
        assert comes_to(lambda: writer.stats().readers_died, 8) == 8 and writer.stats().dropped == 0


def test_an_array_in_another_process_holds_its_slot(start):
    with sluice.Writer("cam", shape=8) as writer:
        child = start("hold", "cam")
        wait_until(lambda: writer.stats().readers)
        writer.send(bytes([42] * 8))
        child.expect("holds 42")
        for value in range(50):
            writer.send(bytes([value] * 8))
        child.write("go on")
        child.expect("still 42")
        assert child.wait() == 0


# ---- multiprocessing ----

def spawned(folder, name, answers):
    os.environ["SLUICE_DIR"] = folder  # a server that forks may have another test's
    with sluice.Reader(name, wait=60) as reader:
        answers.put("open")
        answers.put([int(frame.numpy()[0]) for _, frame in zip(range(3), reader)])


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing(method, folder):
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    with sluice.Writer("cam", shape=4, dtype="int64", policy="wait", wait=60) as writer:
        process = context.Process(target=spawned, args=(folder, "cam", answers))
        process.start()
        assert answers.get(timeout=STARTS) == "open"
        value = 0
        while answers.empty() and process.is_alive():  # however rarely it runs
            value += 1
            writer.send(np.full(4, value))
            time.sleep(0.002)
        got = answers.get(timeout=STARTS)
        assert len(got) == 3 and got == sorted(got)
        process.join(STARTS)
        assert process.exitcode == 0


FORKS = {"PYTHONWARNINGS": "ignore::DeprecationWarning"}  # newer Pythons warn of forks beside threads, rightly


def test_a_forked_child_is_told(run):
    """In a process of its own, so that pytest is not what forks."""
    out = run("""
import os, sys, sluice, numpy as np
writer = sluice.Writer("cam", shape=4); reader = sluice.Reader("cam")
writer.send(bytes(4)); frame = reader.next(); array = frame.numpy()
pid = os.fork()
if pid == 0:
    told = 0
    for call in (reader.next, reader.latest, reader.stats, reader.fileno, writer.frame, lambda: writer.send(bytes(4)),
                 lambda: sluice.Reader("cam"), lambda: sluice.Writer("b", shape=3), lambda: frame.numpy()):
        try:
            call()
        except sluice.ForkedError as error:
            assert "spawn" in str(error), error
            told += 1
        except sluice.StaleError:
            told += 1
    del frame, array, reader, writer
    print("child", told, flush=True)
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
writer.send(b"abcd")
assert reader.next().numpy().tobytes() == b"abcd" and array.tolist() == [0] * 4
print("parent goes on")
""", env=FORKS)
    assert out == "child 9\nparent goes on\n"


def test_a_fork_while_another_thread_waits(run):
    out = run("""
import os, sys, threading, time, sluice
writer = sluice.Writer("cam", shape=4); reader = sluice.Reader("cam")
thread = threading.Thread(target=lambda: reader.next().release()); thread.start()
time.sleep(0.1)
pid = os.fork()
if pid == 0:
    try:
        reader.next(timeout=60)
    except sluice.ForkedError:
        print("told", flush=True)
    os._exit(0)
os.waitpid(pid, 0)
writer.send(bytes(4)); thread.join()
""", env=FORKS)
    assert out == "told\n"


def test_multiprocessing_by_fork(run):
    """It works if nothing was open before; otherwise the child gets an error, and nothing hangs."""
    out = run("""
import multiprocessing, sluice
context = multiprocessing.get_context("fork")

def write():
    with sluice.Writer("forked", shape=4, policy="wait", wait=60) as writer:
        while not writer.stats().readers:
            pass
        for _ in range(5):
            writer.send(bytes(4))

def told(queue):
    try:
        sluice.Reader("forked", wait=60)
    except sluice.ForkedError as error:
        queue.put(str(error))

children = [context.Process(target=write)]
children[0].start()
reader = sluice.Reader("forked", mode="in_order", wait=60)
print(len([None for frame in reader]))
queue = context.Queue()
children.append(context.Process(target=told, args=(queue,)))
children[1].start()
print("spawn" in queue.get(timeout=200))
for child in children:
    child.join()
print([child.exitcode for child in children])
""", env=FORKS)
    assert out == "5\nTrue\n[0, 0]\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_whose_parent_has_channels_open(run, method):
    """Also where the server that forks them has loaded Sluice: it has opened nothing."""
    out = run(f"""
import multiprocessing, os, sys, time
sys.path.insert(0, {HERE!r})
import numpy, sluice, test_processes
from eventually import STARTS
context = multiprocessing.get_context({method!r})
context.set_forkserver_preload(["sluice", "numpy", "test_processes"])
with sluice.Writer("cam", shape=4, dtype="int64", policy="wait", wait=60) as writer, sluice.Reader("cam") as reader:
    writer.send(numpy.zeros(4, int))
    frame, answers = reader.next(timeout=60), context.Queue()
    workers = [context.Process(target=test_processes.spawned, args=(os.environ["SLUICE_DIR"], "cam", answers)) for _ in range(2)]
    for worker in workers:
        worker.start()
        assert answers.get(timeout=STARTS) == "open"
    value = 0
    while any(worker.is_alive() for worker in workers):
        value += 1
        writer.send(numpy.full(4, value))
        time.sleep(0.002)
    print(*(len(answers.get(timeout=STARTS)) for _ in workers), *(worker.exitcode for worker in workers))
""")
    assert out == "3 3 0 0\n"


def load(index):
    """What a worker of a DataLoader does: opens the channel when it first needs it."""
    global reader
    try:
        reader
    except NameError:
        reader = sluice.Reader("cam", wait=60)
    with reader.next(timeout=60) as frame:
        return os.getpid(), frame.copy()


def test_workers_of_a_pool():
    with sluice.Writer("cam", shape=4) as writer:
        stop = threading.Event()

        def write():
            while not stop.is_set():
                frame = writer.try_frame()
                if frame is not None:
                    frame.commit()
                time.sleep(0.001)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
                got = list(pool.map(load, range(20)))
        finally:
            stop.set()
            thread.join()
        assert len(got) == 20 and all(isinstance(array, np.ndarray) for _, array in got)


# ---- threads, signals, the end ----

def test_threads_share_one_reader():
    with sluice.Writer("cam", shape=4, policy="wait", wait=60) as writer:
        reader = sluice.Reader("cam", mode="in_order", hold=4)
        got, errors = [], []

        def read():
            try:
                for _ in range(200):
                    with reader.next(timeout=60) as frame:
                        got.append(frame.sequence)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(800):
            with writer.frame():
                pass
        for thread in threads:
            thread.join()
        assert errors == [] and sorted(got) == list(range(1, 801))


def test_threads_share_one_writer():
    with sluice.Writer("cam", shape=64, slots=8, max_slots=16) as writer:
        errors = []

        def write(value):
            try:
                for _ in range(200):
                    with writer.frame(timeout=60) as frame:
                        frame.numpy()[:] = value
                    writer.send(np.full(64, value, "u1"))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=write, args=(value,)) for value in range(4)]
        for thread in threads:
            thread.start()
        reader = sluice.Reader("cam")
        while any(thread.is_alive() for thread in threads):
            frame = reader.latest()
            if frame is not None:
                with frame:
                    assert len(set(frame.numpy().tolist())) == 1
        assert errors == [] and writer.stats().committed == 1600


@pytest.mark.parametrize("wait", [
    lambda writer, reader: reader.next(timeout=SECONDS), lambda writer, reader: writer.frame(timeout=SECONDS),
    lambda writer, reader: writer.send(bytes(4)), lambda writer, reader: sluice.Reader("none", wait=SECONDS),
], ids=["next", "frame", "send", "open"])
def test_the_gil_is_free_while_waiting(wait):
    """Whoever ends the wait needs it."""
    with sluice.Writer("cam", shape=4, slots=3, max_slots=3, policy="wait", wait=SECONDS) as writer:
        reader = sluice.Reader("cam")
        begun = [writer.frame() for _ in range(3)]
        got, errors = [], []

        def run():
            try:
                got.append(wait(writer, reader))
            except sluice.Error as error:  # it waited until its time was over
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        for _ in range(20):
            time.sleep(0.005)
            assert thread.is_alive()
        begun.pop().commit()  # a frame for the reader
        begun.pop().cancel()  # a slot for the writer
        with sluice.Writer("none", shape=4):
            thread.join()
        assert errors == [] and len(got) == 1


def test_a_thread_that_gets_the_gil_late_gives_the_frame_that_was_in_time(start):
    writer = start("write_when_told", "cam")
    writer.expect("open")
    reader = sluice.Reader("cam", wait=60)
    got, seconds = [], 2

    def take():
        with contextlib.suppress(sluice.Timeout):
            got.append(reader.next(timeout=seconds))

    while not got:
        began, thread = time.monotonic_ns(), threading.Thread(target=take)
        thread.start()
        time.sleep(0.1)
        writer.write("go")
        ctypes.PyDLL(None).sleep(seconds + 1)  # and keeps the GIL, in one call
        thread.join()
        writer.expect("written")
        if not got:  # only where this process, or the writer's, stood still
            with reader.next(timeout=60) as frame:
                assert frame.commit_ns > began + seconds * 10**9


def test_a_thread_that_waits_for_a_slot_lets_others_commit():
    with sluice.Writer("cam", shape=4, slots=3, max_slots=3) as writer:
        begun = [writer.frame() for _ in range(3)]
        got = []
        thread = threading.Thread(target=lambda: got.append(writer.frame(timeout=60)))
        thread.start()
        time.sleep(0.1)
        for frame in begun:
            frame.commit()
        thread.join()
        assert len(got) == 1 and writer.stats().dropped == 0


@pytest.mark.parametrize("wait", ["reader.next()", "next(reader)", "[writer.frame(timeout=9999) for _ in range(9)]",
                                  "sluice.Reader('none', wait=9999)"])
def test_ctrl_c_ends_a_wait(run, wait):
    done = run(f"""
import os, signal, sluice, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests may ignore it
writer = sluice.Writer("cam", shape=4, slots=3, max_slots=3); reader = sluice.Reader("cam")
try:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    {wait}
except KeyboardInterrupt:
    print("interrupted")
""")
    assert done == "interrupted\n"


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "del reader", "gc.disable()", "raise SystemExit", "keep.append(keep)"])
def test_the_interpreter_ends_with_everything_live(run, end):
    out = run(f"""
import asyncio, gc, sys, threading, time, sluice, numpy as np
writer = sluice.Writer("cam", shape=(64, 64)); reader = sluice.Reader("cam", hold=3); other = sluice.Reader("cam")
writer.send(np.ones((64, 64), "u1"))
frame = reader.next(); array = frame.numpy(); view = frame.view(); capsule = frame.__dlpack__(); begun = writer.frame()
mine = begun.numpy(); keep = [frame, array, view, reader, writer]; other.fileno()
waiting = threading.Thread(target=sluice.Reader("cam", wait=None, mode="in_order").next, daemon=True)
threading.Thread(target=lambda: [None for _ in other], daemon=True).start()
time.sleep(0.05)
print("end", flush=True)
{end}
""")
    assert out == "end\n"


def test_a_fresh_interpreter_inside():
    interpreters = pytest.importorskip("_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters")
    code = """
import sluice
with sluice.Writer("inner", shape=4) as writer, sluice.Reader("inner") as reader:
    writer.send(bytes(4))
    assert reader.next().sequence == 1
    try:
        reader.next(timeout=0)
    except sluice.Timeout:
        pass
"""
    with sluice.Writer("outer", shape=4) as writer:
        for _ in range(3):
            inner = interpreters.create()
            failed = interpreters.run_string(inner, code)
            assert not failed, failed
            interpreters.destroy(inner)
        with pytest.raises(sluice.FormatError):
            writer.send(np.zeros(4, "f4"))


def test_signals_do_not_disturb():
    with sluice.Writer("cam", shape=4) as writer:
        reader = sluice.Reader("cam")
        hits = []
        before = signal.signal(signal.SIGUSR1, lambda *_: hits.append(1))
        timers = [threading.Timer(0.02 * n, os.kill, (os.getpid(), signal.SIGUSR1)) for n in range(1, 6)]
        timers.append(threading.Timer(0.3, writer.send, (bytes(4),)))
        for timer in timers:
            timer.start()
        assert reader.next(timeout=60).sequence == 1
        for timer in timers:
            timer.join()
        signal.signal(signal.SIGUSR1, before)
        assert len(hits) >= 1
