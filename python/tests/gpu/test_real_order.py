# SPDX-License-Identifier: MIT
"""Frames are whole though the CPU does not wait for the GPU: each test has work that is still running when the frame is given up,
and a writer that has no other slot than that one. No host synchronisation in the loops but where values are compared."""
import gc
import threading

import pytest

import sluice
from needs import torch
from work import DEVICE, SIDE, begin_in, flood, narrow_writer, shown, spin, take, write

RUNS = 200


@pytest.fixture
def narrow():
    with narrow_writer("n") as writer, sluice.Reader("n") as reader:
        spin(1)
        yield writer, reader


def check(sums, expected):
    """(wrong runs): sums are on the GPU until here."""
    torch.cuda.synchronize()
    wrong = [(index, int(got), want) for index, (got, want) in enumerate(zip(sums, expected)) if int(got) != want]
    assert len(sums) == len(expected) and not wrong, wrong[:5]


def read_late(narrow, make, side, floods=None):
    """A slow kernel on `side`, then a sum of the frame; the last reference goes while the kernel runs. The writer is on `floods`,
    or on the default stream: either way on one that does not wait for `side`."""
    writer, reader = narrow
    sums, expected = [], []
    for number in range(1, RUNS + 1):
        write(writer, number)
        frame = take(reader, number)
        with torch.cuda.stream(side):
            tensor = make(frame)
            spin(1)
            sums.append(tensor.sum(dtype=torch.int64))
        expected.append(number * SIDE * SIDE)
        del tensor, frame
        gc.collect(0)
        with torch.cuda.stream(floods):  # None: as it is
            flood(writer, -number)
    check(sums, expected)


def test_without_a_lease_the_same_kernel_reads_what_came_later(narrow):
    """The control: the frame is given back first, through view() its slot is still there, and the writer gets to it."""
    writer, reader = narrow
    side = torch.cuda.Stream()
    sums = []
    for number in range(1, 51):
        write(writer, number)
        frame = take(reader, number)
        view = frame.view()
        frame.release()
        with torch.cuda.stream(side):
            spin(20)  # long enough for a CPU that is busy
            sums.append(view.sum(dtype=torch.int64))
        flood(writer, -number)
    torch.cuda.synchronize()
    right = sum(int(each) == number * SIDE * SIDE for number, each in enumerate(sums, 1))
    assert right < 25, f"{right} of 50 right"


def test_a_side_streams_kernel_reads_the_right_frame_after_the_last_reference(narrow):
    read_late(narrow, lambda frame: frame.torch(), torch.cuda.Stream())


def test_so_it_does_through_dlpack(narrow):
    read_late(narrow, torch.from_dlpack, torch.cuda.Stream())


def test_so_it_does_through_the_array_interface(narrow):
    read_late(narrow, lambda frame: torch.as_tensor(frame, device=DEVICE), torch.cuda.Stream())


def test_so_it_does_on_the_default_stream(narrow):
    read_late(narrow, lambda frame: frame.torch(), torch.cuda.default_stream(), floods=torch.cuda.Stream())


@pytest.mark.parametrize("released", [False, True])
def test_used_on_names_a_stream_that_nobody_could_know_of(narrow, released):
    """The tensor was taken on the default stream, and is read on another by a kernel that comes late."""
    writer, reader = narrow
    side = torch.cuda.Stream()
    sums, expected = [], []
    for number in range(1, RUNS + 1):
        write(writer, number)
        frame = take(reader, number)
        tensor = frame.torch()
        with torch.cuda.stream(side):
            spin(1)
            sums.append(tensor.sum(dtype=torch.int64))
        if released:  # the tensor has the frame still
            frame.release()
        frame.used_on(side)
        expected.append(number * SIDE * SIDE)
        del tensor, frame
        flood(writer, -number)
    check(sums, expected)


def test_a_release_waits_for_all_streams(narrow):
    writer, reader = narrow
    sides = [torch.cuda.Stream() for _ in range(3)]
    sums, expected = [], []
    for number in range(1, 51):
        write(writer, number)
        with take(reader, number) as frame:
            for index, side in enumerate(sides):
                with torch.cuda.stream(side):
                    tensor = frame.torch()
                    spin(1 + (index + number) % 3)
                    sums.append(tensor.sum(dtype=torch.int64))
                    del tensor
                expected.append(number * SIDE * SIDE)
        flood(writer, -number)
    check(sums, expected)


def test_the_stream_that_next_was_given(narrow):
    """stream= is where the work is, whatever PyTorch's current one is when the tensor is made."""
    writer, reader = narrow
    side = torch.cuda.Stream()
    sums, expected = [], []
    for number in range(1, 51):
        write(writer, number)
        frame = take(reader, number, stream=side)
        tensor = frame.torch()
        with torch.cuda.stream(side):
            spin(1)
            sums.append(tensor.sum(dtype=torch.int64))
        expected.append(number * SIDE * SIDE)
        del tensor, frame
        flood(writer, -number)
    check(sums, expected)


def test_the_threads_sluice_stream(narrow):
    """As with next(stream=...); the writer is outside, on a stream that waits for neither this one nor PyTorch's."""
    writer, reader = narrow
    stream, floods = sluice.Stream(DEVICE), torch.cuda.Stream()
    side = stream.to_torch()
    sums, expected = [], []
    for number in range(1, 51):
        write(writer, number)
        with stream.use():  # which nothing waits for when it is left
            frame = take(reader, number)
            tensor = frame.torch()
            with torch.cuda.stream(side):
                spin(1)
                sums.append(tensor.sum(dtype=torch.int64))
        expected.append(number * SIDE * SIDE)
        del tensor, frame
        with torch.cuda.stream(floods):
            flood(writer, -number)
    check(sums, expected)


def test_a_writers_frame_is_published_behind_its_work(narrow):
    """Slow kernels on a side stream; readers on the default stream never see half of it."""
    writer, reader = narrow
    side = torch.cuda.Stream()
    sums, expected = [], []
    for number in range(1, RUNS + 1):
        with torch.cuda.stream(side), writer.frame(timeout=60) as out:
            spin(1)
            out.torch().fill_(number)
        frame = reader.next(timeout=60)
        sums.append(frame.torch().sum(dtype=torch.int64))
        expected.append(number * SIDE * SIDE)
        frame.release()
    check(sums, expected)


def test_the_cpu_waits_for_nothing_when_it_writes():
    with narrow_writer("n") as writer:
        write(writer, 0)
        torch.cuda.synchronize()
        side = torch.cuda.Stream()

        def attempt():
            with torch.cuda.stream(side), writer.frame(timeout=60) as out:
                spin(100)
                out.torch().fill_(1)
            busy = not side.query()
            side.synchronize()
            return busy

        assert shown(attempt)


def test_a_frame_taken_ahead_goes_to_other_streams_through_dlpack():
    """The specification's 40: a slow producer, a reader that does not wait, torch.from_dlpack on a side stream."""
    with narrow_writer("n", slots=4, max_slots=4) as writer, sluice.Reader("n", ahead=True, hold=2) as reader:
        making, taking, using = (torch.cuda.Stream() for _ in range(3))
        sums, expected, early = [], [], 0
        for number in range(1, RUNS + 1):
            with torch.cuda.stream(making), writer.frame(timeout=60, meta=b"%d" % number) as out:
                spin(2)
                out.torch().fill_(number)
            frame = take(reader, number, stream=taking)
            with torch.cuda.stream(using):
                tensor = torch.from_dlpack(frame)
                early += not making.query()
                sums.append(tensor.sum(dtype=torch.int64))
            expected.append(number * SIDE * SIDE)
            del tensor, frame
        check(sums, expected)
        assert early >= RUNS // 2, "from_dlpack waited for the GPU"


def test_send_is_behind_the_stream_that_made_the_tensor(narrow):
    writer, reader = narrow
    side = torch.cuda.Stream()
    source = torch.zeros((SIDE, SIDE), dtype=torch.int32, device=DEVICE)
    torch.cuda.synchronize()
    sums, expected = [], []
    for number in range(1, RUNS + 1):
        with torch.cuda.stream(side):
            spin(1)
            source.fill_(number)
            writer.send(source)
            source.fill_(-1)
        frame = reader.next(timeout=60)
        sums.append(frame.torch().sum(dtype=torch.int64))
        expected.append(number * SIDE * SIDE)
        frame.release()
    check(sums, expected)


def test_a_cancelled_frame_is_free_behind_its_work(narrow):
    """A slow kernel still writes into the cancelled slot: it is not reused before the kernel has ended."""
    writer, reader = narrow
    side = torch.cuda.Stream()
    sums, expected = [], []
    for number in range(1, 51):
        with torch.cuda.stream(side):
            out = writer.frame(timeout=60)
            tensor = out.torch()
            spin(1)
            tensor.fill_(-1)
            out.cancel()
            del tensor
        with writer.frame(timeout=60) as out:
            out.torch().fill_(number)
        frame = reader.next(timeout=60)
        sums.append(frame.torch().sum(dtype=torch.int64))
        expected.append(number * SIDE * SIDE)
        frame.release()
    check(sums, expected)


def read_slowly(narrow, number, side, milliseconds):
    """(slot, its tensor of the writer's, the sum of a slow kernel, an event behind that): the frame has been given back."""
    writer, reader = narrow
    with writer.frame(timeout=60, meta=b"%d" % number) as out:
        slot, own = out.slot, out.view()  # which holds no lease
        own.fill_(number)
    frame = take(reader, number)
    assert frame.slot == slot
    with torch.cuda.stream(side):
        tensor = frame.torch()
        spin(milliseconds)
        total = tensor.sum(dtype=torch.int64)
        read = side.record_event()
    del tensor
    frame.release()
    return slot, own, total, read


def test_memory_that_is_used_again_while_a_kernel_reads_it(narrow):
    """The specification's 39, 500 runs: a slot is given back while a slow kernel reads it, and the writer fills that same slot
    anew; both the kernel's sum and the new frame are right. The CPU knows that it had to wait for the kernel."""
    writer, reader = narrow
    side = torch.cuda.Stream()
    sums, expected, busy = [], [], 0
    for number in range(2, 502):
        slot, own, total, read = read_slowly(narrow, number, side, 3)
        busy += not read.query()
        with begin_in(slot, writer, -number) as out:  # three slots: the other two have the newest frame, and one that is begun
            assert out.view() is own and out[0].address == own.data_ptr()
            assert read.query(), f"run {number}: the slot was begun while its reader's kernel ran"
            out.torch().fill_(-number)
        frame = take(reader, -number)
        assert frame.slot == slot
        sums += [total, frame.torch().sum(dtype=torch.int64)]
        frame.release()
        expected += [number * SIDE * SIDE, -number * SIDE * SIDE]
    check(sums, expected)
    assert busy >= 250, f"in {busy} of 500 runs the kernel was running when the slot was begun anew"


def test_memory_that_is_filled_without_being_begun_anew(narrow):
    """The control of that test: the same slot, filled on a stream that is not ordered behind the kernel, which the test detects."""
    side, raw = torch.cuda.Stream(), torch.cuda.Stream()
    sums = []
    for number in range(2, 22):
        _, own, total, _ = read_slowly(narrow, number, side, 20)
        with torch.cuda.stream(raw):
            own.fill_(-number)
        sums.append((number, total))
        torch.cuda.synchronize()
    right = [number for number, total in sums if int(total) == number * SIDE * SIDE]
    assert len(right) < 10, f"{len(right)} of 20 right, though the slot was overwritten"


def test_eight_threads_on_eight_streams():
    """Each writes and reads a channel of its own, all at once: no frame is another thread's, none is half done."""
    wrong = []

    def work(which):
        stream = torch.cuda.Stream()
        with narrow_writer(f"n{which}", shape=(64, 64)) as writer, sluice.Reader(f"n{which}") as reader:
            sums = []
            for number in range(300):
                with torch.cuda.stream(stream):
                    write(writer, 1000 * which + number)
                    with reader.next(timeout=60) as frame:
                        sums.append(frame.torch().sum(dtype=torch.int64))
            stream.synchronize()
            wrong.extend((which, number, int(each)) for number, each in enumerate(sums)
                         if int(each) != (1000 * which + number) * 64 * 64)

    threads = [threading.Thread(target=work, args=(which,)) for which in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:5]


def test_cupys_kernels_on_a_stream_of_its_own(narrow, cupy):
    writer, reader = narrow
    side = cupy.cuda.Stream(non_blocking=True)
    outer = torch.cuda.ExternalStream(side.ptr)
    sums, expected = [], []
    for number in range(1, RUNS + 1):
        write(writer, number)
        frame = take(reader, number)
        with side:
            array = frame.cupy()
            with torch.cuda.stream(outer):
                spin(1)
            sums.append(array.sum(dtype="int64"))
        expected.append(number * SIDE * SIDE)
        del array, frame
        flood(writer, -number)
    side.synchronize()
    check(sums, expected)


def test_jaxs_functions(jax):
    """JAX has streams of its own, and lets go of what it was given when its work on it is done: some frames are on the way."""
    add = jax.jit(lambda array: jax.numpy.sum(jax.numpy.sort(array, axis=0), dtype="int32"))
    sums, expected = [], []
    with narrow_writer("n", slots=6, max_slots=6) as writer, sluice.Reader("n", hold=3) as reader:
        for number in range(1, 101):
            write(writer, number)
            frame = take(reader, number)
            sums.append(add(frame.jax()))
            expected.append(number * SIDE * SIDE)
            del frame
            flood(writer, -number)
        check(sums, expected)
