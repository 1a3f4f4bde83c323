# SPDX-License-Identifier: MIT
"""A million frames, and thousands of openings: memory, descriptors and leases stay what they were."""
import gc
import os
import threading
import time

import numpy as np
import pytest

import sluice
from eventually import SECONDS


def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def threads():
    return len(os.listdir("/proc/self/task"))


def open_now(most=None):
    """Descriptors and threads. What ends, ends a little later: waits for no more than `most`, if it is given."""
    end = time.monotonic() + SECONDS
    while True:
        now = descriptors(), threads()
        if most is None or all(map(int.__le__, now, most)) or time.monotonic() > end:
            return now
        time.sleep(0.02)


def growth(one, times):
    """Descriptors, threads and bytes that there are more when one(number) was called so often."""
    gc.collect()
    memory, before = rss(), open_now()
    for number in range(times):
        one(number)
    gc.collect()
    return *map(int.__sub__, open_now(most=before), before), rss() - memory


def check_no_growth(one, first, times, room):
    """one(number) `first` times, then `times` more: no descriptor and no thread more, less than `room` bytes. A leak grows each
    time; what malloc keeps for as many threads as ever met does once, on a busy machine later."""
    for number in range(first):
        one(number)
    grown = []
    while not grown or (len(grown) < 3 and not is_none(grown[-1], room)):
        grown.append(growth(one, times))
    assert is_none(grown[-1], room), grown


def is_none(grown, room):
    return grown[0] <= 0 and grown[1] <= 0 and grown[2] < room


@pytest.mark.limit(1800)
def test_a_million_frames(scale):
    frames = int(1_000_000 * scale)
    with sluice.Writer("leak", {"image": sluice.Image("bgr24", 32, 16), "boxes": ((10, 4), "float32")}, resize=True) as writer:
        reader = sluice.Reader("leak", hold=3)
        boxes = np.zeros((3, 4), "f4")
        picture = np.zeros((16, 32, 3), "u1")

        def one(number):
            kind = number % 8
            if kind == 0:
                writer.send({"image": picture, "boxes": boxes}, meta=b"sent")
            else:
                with writer.frame(meta=b"meta") as frame:
                    if kind == 1:
                        frame.reshape((2, 4), "boxes")
                    if kind == 2:
                        frame.numpy()[0, 0] = 1
            frame = reader.next(timeout=60)
            if kind == 3:
                array = np.from_dlpack(frame)
            elif kind == 4:
                array = np.asarray(frame["boxes"])
            elif kind == 5:
                array = frame.view()
            elif kind == 6:
                array = frame.__dlpack__(max_version=(1, 0)), frame.meta, frame.planes, frame.__array_interface__
            else:
                array = frame.numpy()
            if kind == 7:
                frame.release()
            assert array is not None

        check_no_growth(one, 20_000, frames, 1 << 20)
        assert reader.stats().held == 0 and reader.stats().taken == writer.stats().committed
        assert writer.stats().dropped == 0


def test_frames_that_fail_leak_nothing():
    with sluice.Writer("leak", shape=64, slots=3, max_slots=3) as writer:
        reader = sluice.Reader("leak", hold=1)
        wrong = np.zeros(64, "f4")

        def one(_):
            for call in (lambda: writer.send(wrong), lambda: writer.frame(meta=3), lambda: reader.next(timeout=0),
                         lambda: writer.frame()["nope"], lambda: writer.send(object()), lambda: sluice.Reader("none"),
                         lambda: sluice.Writer("leak", shape=3), lambda: sluice.Writer("x", shape=-1)):
                with pytest.raises((sluice.Error, TypeError, KeyError)):
                    call()

        check_no_growth(one, 200, 2000, 2 << 20)


def test_openings_leak_nothing(scale):
    def one(number):
        with sluice.Writer("leak", shape=(64, 64)) as writer:
            reader = sluice.Reader("leak")
            if number % 2:
                reader.fileno()
            writer.send(np.zeros((64, 64), "u1"))
            array = reader.next(timeout=60).numpy()
            if number % 3:
                reader.close()
            assert array[0, 0] == 0

    check_no_growth(one, 50, int(500 * scale), 2 << 20)


def test_generations_leak_nothing(scale):
    with sluice.Writer("leak", shape=(64, 64)) as writer:
        reader = sluice.Reader("leak", hold=2)

        def one(number):
            writer.reformat(shape=(64 + number % 5, 64))
            with writer.frame() as frame:
                array = frame.numpy()
            got = reader.next(timeout=60).numpy()
            assert got.shape == array.shape

        check_no_growth(one, 50, int(500 * scale), 2 << 20)


def test_frames_that_threads_forget_are_cancelled():
    """A begun frame may die on any thread, also while another is inside the writer."""
    with sluice.Writer("leak", shape=1 << 16, slots=8, max_slots=16) as writer:
        stop = threading.Event()

        def forget():
            while not stop.is_set():
                frame = writer.try_frame()
                if frame is not None:
                    array = frame.numpy()
                    del frame, array

        def send():
            while not stop.is_set():
                try:
                    writer.send(np.zeros(1 << 16, "u1"))
                except sluice.NoFreeSlot:
                    pass

        writer.send(np.zeros(1 << 16, "u1"))
        workers = [threading.Thread(target=forget) for _ in range(3)] + [threading.Thread(target=send)]
        for worker in workers:
            worker.start()
        stop.wait(1)
        stop.set()
        for worker in workers:
            worker.join()
        begun = [writer.frame(timeout=60) for _ in range(15)]  # all but the newest frame's
        assert len(begun) == 15


LINKS = """
import gc, os, sys
sys.path.insert(0, {tests!r})
import gpu_kit, stand_ins
from test_leaks import check_no_growth
gpu_kit.find()
stand_ins.install()
import sluice.cuda_link as cuda_link
from sluice.cuda_link import ImportOutcome

source = cuda_link.get_cuda_runtime().malloc(1024)
policies = [cuda_link.ImportPolicy(d2h_pipelined=pipelined, debug=debug) for pipelined in (0, 1) for debug in (0, 1)]


def one(number):
    exporter = cuda_link.Exporter.open(cuda_link.FrameSpec("sluice:leak", 16, 16, num_slots=4))
    importer = cuda_link.Importer.open(cuda_link.ImportSpec("sluice:leak", timeout_ms=60_000), policy=policies[number % 4])
    kept = []
    for method in ("get_frame", "get_frame_cupy", "get_frame_numpy", "get_frame_numpy", "get_frame"):
        assert exporter.export(cuda_link.GpuFrame(source.value, 1024, 0)).name == "PUBLISHED"
        while importer.frame_count == len(kept):
            result = getattr(importer, method)()
        kept.append(result)
    importer.get_stats(), exporter.get_stats()
    if number % 3:
        exporter.close()
        while number % 2 and importer.get_frame().outcome is not ImportOutcome.SHUTDOWN:
            pass
    if number % 5:
        importer.close()
    assert kept[0].outcome is ImportOutcome.NEW_FRAME


check_no_growth(one, 60, {times}, 2 << 20)
"""


@pytest.mark.limit(900)
def test_importers_and_exporters_leak_nothing(gpu, run, scale):
    run(LINKS.format(tests=os.path.dirname(__file__), times=int(240 * scale)), timeout=800)
