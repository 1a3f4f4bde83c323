# SPDX-License-Identifier: MIT
"""The job of peer.c for peers that are Python packages: the same arguments, the same two processes, the same output.

A peer is a class with the methods of peer.h's table. BENCH_BYTES names the library of bytes.c.
"""
import ctypes
import mmap
import os
import signal
import struct
import sys
import time

SLOTS = 4
WARM_UP = 2 * SLOTS  # frames that are not counted
MIN_FRAMES = 16  # that are counted, however long they take
SLEEP_GAP = 100_000  # ns, after which the reader is asleep
TIMEOUT = 60  # seconds beyond the time given
MISSING = 77
LAST, TAKEN, READ = 0, 8, 16  # in the memory that both share

now = time.monotonic_ns


class Peer:
    in_place = True

    def __init__(self, size):
        self.size = size

    # the writer
    def writer_open(self): ...
    def loan(self): ...  # the address of memory that the reader will find
    def send(self, own): ...  # a buffer to copy from, or None for what loan() returned
    def writer_close(self): ...

    # the reader
    def reader_open(self): ...
    def receive(self): ...  # what a program would read
    def address(self): ...  # of what was taken
    def release(self): ...
    def reader_close(self): ...


class Bytes:
    def __init__(self):
        library = ctypes.CDLL(os.environ["BENCH_BYTES"])
        self.fill, self.check = library.bytes_fill, library.bytes_check
        for function in self.fill, self.check:
            function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64]
        self.fill.restype, self.check.restype = None, ctypes.c_bool


def write(peer, job, stage, ready, done):
    size, in_place, rate, seconds = job
    data = Bytes()
    own = None if in_place else (ctypes.c_uint8 * size)()
    until, samples, sequence, last = None, [], 0, False
    peer.writer_open()
    os.eventfd_write(ready[0], 1)
    os.eventfd_read(ready[1])
    while not last:
        sequence += 1
        if sequence == WARM_UP:
            until = now() + int(seconds * 1e9)
        last = sequence >= WARM_UP + MIN_FRAMES and now() >= until
        if last:
            struct.pack_into("q", stage, LAST, sequence)
        data.fill(peer.loan() if in_place else own, size, sequence)
        if not rate:
            resume = struct.unpack_from("q", stage, READ)[0] + SLEEP_GAP
            while now() < resume:
                pass
        start = now()
        peer.send(own)
        if rate:
            continue
        os.eventfd_read(done)
        if sequence > WARM_UP:
            samples.append([struct.unpack_from("q", stage, at)[0] - start for at in (TAKEN, READ)])
    if rate:
        os.eventfd_read(done)
    peer.writer_close()
    return samples


def read(peer, job, stage, ready, done):
    size, in_place, rate, seconds = job
    data = Bytes()
    samples, sequence, last, before = [], 0, False, 0
    os.eventfd_read(ready[0])
    peer.reader_open()
    os.eventfd_write(ready[1], 1)
    while not last:
        sequence += 1
        frame = peer.receive()
        taken = now()
        if not data.check(peer.address(), size, sequence):
            raise ValueError("a frame is not what was written")
        end = now()
        del frame
        struct.pack_into("qq", stage, TAKEN, taken, end)
        if rate and sequence > WARM_UP:
            samples.append([end - before, end - before])
        before = end
        peer.release()
        last = sequence == struct.unpack_from("q", stage, LAST)[0]
        if not rate or last:
            os.eventfd_write(done, 1)
    peer.reader_close()
    return samples


def start(act, half, *arguments):
    """Starts a process on one half of the CPUs, which prints its samples at the end."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) > 1:
            os.sched_setaffinity(0, cpus[:len(cpus) // 2] if half == 0 else cpus[len(cpus) // 2:])
        sys.stdout.writelines(f"{taken} {end}\n" for taken, end in act(*arguments))
        sys.stdout.flush()
        code = 0
    except ImportError as error:
        print(error, file=sys.stderr)
        code = MISSING
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)


def give_up(*_):
    raise TimeoutError


def both(acts, seconds, *arguments):
    """Runs the two processes and ends this one with the first status that is not 0."""
    children = {start(act, half, *arguments) for half, act in enumerate(acts)}
    code = 0
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(int(seconds) + TIMEOUT)
    try:
        while children and not code:
            pid, status = os.wait()
            code = os.waitstatus_to_exitcode(status)
            children.remove(pid)
    except TimeoutError:
        print("it did not end in time", file=sys.stderr)
        code = 1
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    sys.exit(code if code >= 0 else 1)


def main(peer_class):
    size, way, what, seconds = sys.argv[1:]
    job = int(size), way == "in-place", what == "rate", float(seconds)
    stage = mmap.mmap(-1, mmap.PAGESIZE)
    ready, done = [os.eventfd(0), os.eventfd(0)], os.eventfd(0)
    both((write, read), job[3], peer_class(job[0]), job, stage, ready, done)
