# SPDX-License-Identifier: MIT
"""For python/bench_gpu.py: ways to send a tensor to another process. Each has a sender and a receiver with the same steps."""
import ctypes
import importlib
import os
import time
import traceback

from python_kit import DEVICE, NBYTES, TIMEOUT, PAUSE, SHAPE, clock, note, stay_awake, with_goal
from python_link_kit import exporter_of, importer_of
from rows import row

NAP = 0.002  # s of sleep, after which a CPU and its caches are slow at first


class Way:
    """The fill ends "before" the measured time begins or is "within" it. The sender is "awake" before, or "woken" from sleep. With
    `own` the sender works on a stream of its own, else on PyTorch's default stream."""
    way, wait, goal, ours = "", "asleep", None, True

    def __init__(self, context, number, fill="before", sender="awake", own=False):
        self.within, self.naps, self.own = fill == "within", sender == "woken", own
        if self.within or self.naps or own:
            self.goal = None  # it is set for the default case only
        self.params = {"way": self.way, "wait": self.wait, "fill": fill, "sender": sender, "bytes": NBYTES}
        if own:
            self.params["stream"] = "own"
        self.open(context, number)

    def open(self, context, number):
        """Runs before the other process starts."""

    def sender(self, torch):
        self.tensor = torch.zeros(SHAPE, dtype=torch.uint8, device=DEVICE)

    def fill(self, value):
        self.tensor.fill_(value)

    def receiver(self, torch):
        pass

    def tensor_of(self, got):
        """The tensor of what get() returned. Runs after the clock was read."""
        return got

    def end_get(self):
        pass

    def end(self):
        pass


class Sluice(Way):
    """In place: the tensor is the slot itself. The receiver sleeps in the library's own wait."""
    way, goal, in_place, spin = "sluice, in place", 15_000, True, 0

    def open(self, context, number):
        self.name = f"way-{number}"

    def sender(self, torch):
        import sluice
        self.writer = sluice.Writer(self.name, shape=SHAPE, device=DEVICE)
        super().sender(torch)

    def fill(self, value):
        if self.in_place:
            self.frame = self.writer.frame(timeout=5)
            self.frame.torch().fill_(value)
        else:
            self.tensor.fill_(value)

    def put(self):
        self.frame.commit() if self.in_place else self.writer.send(self.tensor)

    def receiver(self, torch):
        import sluice
        self.reader = sluice.Reader(self.name, wait=TIMEOUT, spin=self.spin)

    def get(self):
        self.frame = self.reader.next(timeout=TIMEOUT)
        return self.frame.torch()

    def end_get(self):
        self.frame.release()

    def end(self):
        self.writer.close()


class SluiceSpins(Sluice):
    wait, spin = "spinning", 1.0


class SluiceFrame(SluiceSpins):
    """SluiceSpins without torch(): until next() has returned."""
    way, goal = "sluice, in place, the frame alone", None

    def get(self):
        self.frame = self.reader.next(timeout=TIMEOUT)
        return self.frame

    def tensor_of(self, got):
        return got.torch()


class SluiceSend(Sluice):
    """One copy, into the slot."""
    way, in_place = "sluice, send", False


class SluiceSendSpins(SluiceSend):
    wait, spin = "spinning", 1.0


class TorchQueue(Way):
    """torch.multiprocessing: the tensor's memory is shared and its handle goes through a pipe. The receiver's tensor is usable
    at once because its stream waits for the sender's."""
    way = "torch.multiprocessing.Queue"

    def open(self, context, number):
        self.queue = context.Queue()

    def put(self):
        self.queue.put(self.tensor)

    def get(self):
        return self.queue.get()


class TorchSimpleQueue(TorchQueue):
    """The same without a thread between put() and the pipe."""
    way = "torch.multiprocessing.SimpleQueue"

    def open(self, context, number):
        self.queue = context.SimpleQueue()


class CudaLink(Way):
    """cuda-link: a copy into a ring of buffers. The receiver spins on the number of the newest, then takes the frame."""
    way, wait, ours, package = "cuda-link", "spinning", False, "cuda_link"
    NEWEST = 16  # offset of that number in the segment

    def open(self, context, number):
        importlib.import_module(self.package)
        self.name = f"bench_gpu_{os.getpid()}_{number}"

    def sender(self, torch):
        self.exporter = exporter_of(importlib.import_module(self.package), self.name, SHAPE, "uint8")
        super().sender(torch)

    def put(self):
        self.exporter.export(self.tensor.data_ptr(), NBYTES)

    def receiver(self, torch):
        from multiprocessing import shared_memory
        until = time.monotonic() + TIMEOUT
        while True:
            try:
                self.segment = shared_memory.SharedMemory(name=self.name)
                break
            except FileNotFoundError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
        time.sleep(0.5)  # the exporter has written its handles
        self.importer = importer_of(importlib.import_module(self.package), self.name)
        self.call, self.frame_of = self.importer.caller("get_frame")
        self.word = ctypes.c_uint32.from_buffer(self.segment.buf, self.NEWEST)
        self.seen = self.word.value

    def get(self):
        while self.word.value == self.seen:
            pass
        self.seen = self.word.value
        frame = self.frame_of(self.call())
        if frame is None:
            raise RuntimeError("cuda-link returned no frame")
        return frame

    def end(self):
        self.exporter.close()


class SluiceLink(CudaLink):
    """The same program with Sluice's module of that interface."""
    way, ours, package = "sluice.cuda_link", True, "sluice.cuda_link"


class Word(Way):
    """The minimum: the driver writes a word after the stream's work, by ctypes, and the receiver spins on it in Python. The receiver has
    the tensor from the start."""
    way, wait, ours = "a word by the driver", "spinning", False
    PAGE = 4096

    def open(self, context, number):
        self.tensors = context.SimpleQueue()
        self.memory = context.RawArray(ctypes.c_uint64, 2 * self.PAGE // 8)
        self.at = -ctypes.addressof(self.memory) % self.PAGE // 8  # where a page begins, in both processes
        self.count = 0

    def call(self, name, *arguments):
        code = getattr(self.driver, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} returned {code}")

    def sender(self, torch):
        super().sender(torch)
        torch.cuda.synchronize()
        self.driver, word = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
        self.page = ctypes.c_void_p(ctypes.addressof(self.memory) + 8 * self.at)
        self.call("cuMemHostRegister_v2", self.page, ctypes.c_size_t(self.PAGE), ctypes.c_uint(2))  # for the device
        self.call("cuMemHostGetDevicePointer_v2", ctypes.byref(word), self.page, ctypes.c_uint(0))
        self.write, self.word = self.driver.cuStreamWriteValue64_v2, word.value
        self.write.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint]
        self.stream = torch.cuda.current_stream().cuda_stream
        self.tensors.put(self.handed(torch))

    def handed(self, torch):
        """The tensor that the receiver has from the start."""
        return self.tensor

    def put(self):
        self.count += 1
        if self.write(self.stream, self.word, self.count, 0) != 0:
            raise RuntimeError("cuStreamWriteValue64 failed")

    def receiver(self, torch):
        self.tensor = self.tensors.get()

    def get(self):
        while self.memory[self.at] == self.count:
            pass
        self.count += 1
        return self.tensor

    def end(self):
        self.call("cuMemHostUnregister", self.page)


class WordWakes(Word):
    """The minimum with a receiver that sleeps: a semaphore wakes it, and it then spins on the word."""
    wait = "asleep"

    def open(self, context, number):
        super().open(context, number)
        self.bell = context.Semaphore(0)

    def put(self):
        super().put()
        self.bell.release()

    def get(self):
        if not self.bell.acquire(timeout=TIMEOUT):
            raise RuntimeError("the semaphore timed out")
        return super().get()


class Copy(Word):
    """The minimum of a send: the driver copies the tensor and then writes a word."""
    way = "a copy and a word by the driver"

    def handed(self, torch):
        self.slot = torch.empty_like(self.tensor)
        self.copy = self.driver.cuMemcpyDtoDAsync_v2
        self.copy.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p]
        self.places = self.slot.data_ptr(), self.tensor.data_ptr()
        return self.slot

    def put(self):
        if self.copy(*self.places, NBYTES, self.stream) != 0:
            raise RuntimeError("cuMemcpyDtoDAsync failed")
        super().put()


class CopyWakes(WordWakes, Copy):
    """The minimum of a send to a receiver that sleeps."""


WITHIN, WOKEN, OWN = {"fill": "within"}, {"sender": "woken"}, {"own": True}
WAYS = [*((each, {}) for each in (SluiceSpins, Sluice, SluiceSendSpins, SluiceSend, TorchSimpleQueue, TorchQueue)),
        *((each, WITHIN) for each in (SluiceSpins, Sluice, TorchSimpleQueue, TorchQueue)),
        *((each, WOKEN) for each in (SluiceSpins, Sluice, TorchSimpleQueue, TorchQueue)),
        *((each, OWN) for each in (SluiceSpins, SluiceSendSpins)),
        (SluiceFrame, {}), (Word, {}), (WordWakes, {}), (Word, OWN), (Copy, {}), (CopyWakes, {}), (SluiceLink, {}), (CudaLink, {})]  # last, because its failure ends the others


def set_limits(rows):
    """Sets the limit of each row with a goal: what the driver alone takes with a receiver that waits in the same way."""
    usable = [each for each in rows if each["bench"] == "py_gpu_put_to_usable"]
    for each in usable:
        bare = {**each["params"], "way": {Sluice.way: Word.way, SluiceSend.way: Copy.way}.get(each["params"]["way"])}
        for other in usable:
            if "goal_ns" in each and other["params"] == bare:
                each["limit_p50_ns"] = other["p50_ns"]


def receive(ways, rounds, ready, results):
    """The other process: does all ways in turn, so that PyTorch is imported once."""
    import torch

    torch.zeros(1, device=DEVICE)
    for index, way in enumerate(ways):
        try:
            taken = []
            way.receiver(torch)
            ready.put(index)
            for number in range(rounds):
                got = way.get()
                usable = clock()
                tensor = way.tensor_of(got)
                if int(tensor.flatten()[-1]) != number % 251:
                    raise ValueError(f"frame {number} is not what was put")
                taken.append(usable)
                del tensor, got
                way.end_get()
                ready.put(index)
            results.put(taken)
        except Exception:
            results.put(traceback.format_exc())


def hand_over(torch, way, index, rounds, ready, results):
    """(put samples, put-to-usable samples), or a RuntimeError."""
    began, calls_of_put = [], []
    torch.cuda.set_stream(torch.cuda.Stream() if way.own else torch.cuda.default_stream())
    way.sender(torch)
    wait_for(ready, results, index)
    for number in range(rounds):
        if not way.within:
            way.fill(number % 251)
        torch.cuda.synchronize()
        if way.naps:
            time.sleep(NAP)
        else:
            stay_awake(PAUSE)
        before = clock()
        if way.within:
            way.fill(number % 251)
        way.put()
        after = clock()
        began.append(before)
        calls_of_put.append(after - before)
        wait_for(ready, results, index)
    taken = results.get(timeout=TIMEOUT)
    if isinstance(taken, str):
        raise RuntimeError(taken)
    skip = rounds // 10
    return calls_of_put[skip:], [end - start for start, end in zip(began, taken)][skip:]


def wait_for(ready, results, index):
    until = time.monotonic() + TIMEOUT
    while ready.empty():
        if time.monotonic() > until or (not results.empty() and ready.empty()):  # its results follow its last answer
            raise RuntimeError("the receiver does not answer" if results.empty() else results.get())
    if ready.get() != index:
        raise RuntimeError("another way's answer")


def handoffs(torch, rounds, report):
    multiprocessing = importlib.import_module("torch.multiprocessing").get_context("spawn")
    ways = []
    for number, (kind, options) in enumerate(WAYS):
        try:
            ways.append(kind(multiprocessing, number, **options))
        except ImportError as error:
            report["missing"].append({"rows": kind.way, "why": str(error)})
    ready, results = multiprocessing.SimpleQueue(), multiprocessing.Queue()
    process = multiprocessing.Process(target=receive, args=(ways, rounds, ready, results), daemon=True)
    process.start()
    for index, way in enumerate(ways):
        note(", ".join(map(str, way.params.values())))
        try:
            puts, usable = hand_over(torch, way, index, rounds, ready, results)
            report["rows"] += [row("py_gpu_put", way.params, puts),
                               with_goal(row("py_gpu_put_to_usable", way.params, usable), goal=way.goal)]
            way.end()
        except Exception as error:
            note(f"FAILED {error}")
            report["failed"].append({"bench": "py_gpu_put_to_usable", "params": way.params, "why": str(error)[-1000:]})
            if not way.ours:  # another system failed, not Sluice
                report["missing"].append({"rows": way.way, "why": report["failed"].pop()["why"]})
            break  # the receiver is out of step now
    set_limits(report["rows"])
    process.terminate()
    process.join(10)
