# SPDX-License-Identifier: MIT
"""What breaks a capture of another thread: calls of PyTorch, upstream's way of importing, and the guard that names them.
../test_gpu_live_captures.py has the calls of CUDA, and the captures beside a running loop."""
import collections
import ctypes
import sys
import threading

import pytest

from capture_kit import BROKEN, IMPLICIT, KINDS, LEGACY, MODES, NONE, UNSAFE, Bench, Row, capture_in_a_loop, check_call, pointer
from needs import torch
from work import DEVICE

ATTEMPTS = 20_000


def raises(function):
    """What a call of PyTorch says: 0, or that it raises."""
    def call(bench):
        try:
            function(bench)
        except RuntimeError:
            return "raises"
        return 0

    return call


LIVES, DIES, DIES_GLOBAL = 3 * ["raises>0"], 3 * ["raises>901"], ["raises>901", "0>0", "0>0"]
ROWS = {
    "PyTorch: x[..., [2, 1, 0]] on the default stream": Row(raises(lambda b: b.picture[..., [2, 1, 0]]), LIVES, DIES_GLOBAL),
    "PyTorch: x.item() on the default stream": Row(raises(lambda b: b.number.item()), DIES, DIES_GLOBAL),
    "cudaMallocAsync": Row(lambda b: b.made("MallocAsync", "Free", ctypes.c_size_t(4096), pointer(b.mine)), UNSAFE, UNSAFE),
    "cudaMemsetAsync on the legacy stream": Row(lambda b: b.code("MemsetAsync", pointer(b.memory), 0, ctypes.c_size_t(64), pointer(LEGACY)),
                                                IMPLICIT, NONE),
    "cudaMemcpy, of the capturing thread": Row(Bench.copy, IMPLICIT, NONE, inside=True),
}


@pytest.fixture
def bench(gpu):
    bench = Bench(gpu)
    bench.picture, bench.number = torch.zeros((64, 64, 3), device=DEVICE), torch.ones(1, device=DEVICE)
    bench.picture[..., [2, 1, 0]], bench.number.item()  # what first times load and allocate
    torch.cuda.synchronize()
    yield bench
    bench.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ROWS)
def test_a_call_beside_a_capture(bench, name, kind):
    check_call(bench, ROWS, name, kind)


def test_the_original_failure(bench):
    """A thread captures on a blocking stream, another imports frames as upstream did: its stream was PyTorch's current one, the
    legacy stream, which waited for the sender's event; and the channels were put in order by a list of indices."""
    ended, said = threading.Event(), collections.Counter()

    def import_frames():
        while not ended.is_set():
            bench.call("EventRecord", bench.event, pointer(bench.mine))  # the sender's
            said[bench.wait(torch.cuda.current_stream().cuda_stream)] += 1
            try:
                bench.picture[..., [2, 1, 0]].permute(2, 0, 1).half().div_(127.5).sub_(1)
            except RuntimeError as error:
                said[str(error).splitlines()[0]] += 1

    thread = threading.Thread(target=import_frames)
    thread.start()
    try:
        ends = capture_in_a_loop(bench, MODES["global"], True, lambda ends: BROKEN & set(ends) and said[906] or ends.total() >= ATTEMPTS)
    finally:
        ended.set()
        thread.join()
    words = f"{ends.total()} captures ended {dict(ends)}; the import said {dict(said)}"
    assert BROKEN & set(ends) and said[906], f"it did not occur: {words}"
    print(words)


# ---- the guard; in processes of their own, for a capture that PyTorch could not end leaves its allocator in a bad state ----

OFFENDED = """
import contextlib, ctypes, sys, threading
import torch
from sluice.live import guard
number, other = torch.ones(1, device="cuda"), torch.zeros(64, device="cuda")
number.item(), number[[0]]
event = torch.cuda.Event()
event.record()
torch.cuda.synchronize()
begun, passed = threading.Event(), threading.Event()

def offend():
    begun.wait()
    with contextlib.suppress(RuntimeError):
        {offence}
    passed.set()

def idle():
    passed.wait()

for each in (offend, idle):
    threading.Thread(target=each, name=each.__name__).start()
try:
    with guard.capture(torch.cuda.CUDAGraph()):
        other.add_(1)
        begun.set()
        passed.wait()
        sum(range(1000))
except RuntimeError:
    print("raised")
"""
OFFENCES = {"number.item()": "TensorBase.item", "event.synchronize()": "synchronize", "number[[0]]": "an operator",
            "torch.cuda.synchronize()": "_cuda_synchronize"}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python tells of calls from 3.12 on")
@pytest.mark.parametrize("offence", OFFENCES)
def test_the_guard_names_a_call_of_pytorch(run, offence):
    """Which has passed when the capture ends."""
    done = run(OFFENDED.format(offence=offence), check=False)
    assert done.stdout == "raised\n", done.stderr
    first = next(line for line in done.stderr.splitlines() if line.startswith("by "))
    assert first.startswith('by thread "offend", in ') and OFFENCES[offence] in first, done.stderr
    assert "in offend\n" in done.stderr and 'thread "idle" was at' in done.stderr


def test_the_guard_lets_whole_captures_be(run):
    assert run(OFFENDED.format(offence="torch.cuda.mem_get_info()")) == ""
