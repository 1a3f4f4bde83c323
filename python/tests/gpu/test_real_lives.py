# SPDX-License-Identifier: MIT
"""Long runs and sudden ends on a GPU: nothing grows, and a killed process harms no other."""
import asyncio
import gc
import os
import threading

import numpy as np
import pytest

import sluice
from needs import torch
from work import DEVICE, eventually, held, narrow_writer, take, write


def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def counted():
    torch.cuda.synchronize()
    gc.collect()
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), torch.cuda.mem_get_info()[0]


def check_no_growth(one, first, times, room=2 << 20, gpu_room=4 << 20):
    """A leak grows each time; what malloc and the driver keep for more that is under way at once does once."""
    most = (0, 0, gpu_room - 1, room - 1)
    for number in range(first):
        one(number)
    grown = growth(one, times)
    for _ in range(2):
        if any(map(int.__gt__, grown, most)):
            grown = growth(one, times)
    assert not any(map(int.__gt__, grown, most)), f"{grown}: descriptors, threads, bytes of the GPU and of memory more"


def growth(one, times):
    before, resident = counted(), memory()
    for number in range(times):
        one(number)
    eventually(lambda: all(map(int.__le__, counted()[:2], before)))  # what ends, ends a little later
    more = [int.__sub__(*each) for each in zip(counted(), before)]
    return more[0], more[1], -more[2], memory() - resident


def test_a_hundred_thousand_frames(scale):
    with sluice.Writer("leak", shape=(32, 32), dtype="float32", device=DEVICE) as writer:
        with sluice.Reader("leak", hold=3) as reader:
            source, target = torch.ones((32, 32), device=DEVICE), np.zeros((32, 32), "f4")
            side = torch.cuda.Stream()

            def one(number):
                kind = number % 16
                if kind == 0:
                    writer.send(source)
                elif kind == 1:
                    writer.send(source.T)
                else:
                    with writer.frame(timeout=60) as out:
                        if kind == 2:
                            out.torch().zero_()
                        elif kind == 3:
                            out.view().zero_()
                frame = reader.next(timeout=60)
                if kind == 4:
                    keep = torch.from_dlpack(frame)
                elif kind == 5:
                    keep = frame.view()
                elif kind == 6:
                    with torch.cuda.stream(side):
                        keep = frame.torch()
                    frame.used_on(torch.cuda.current_stream())
                elif kind == 7:
                    keep = frame.numpy()
                elif kind == 8:
                    keep = frame.copy_to(target)
                elif kind == 9:
                    keep = frame.__cuda_array_interface__
                elif kind == 10:
                    keep = frame.__dlpack__(stream=1, max_version=(1, 0))  # a capsule that is not consumed
                elif kind == 11:
                    keep = frame.torch(copy=True)
                else:
                    keep = frame.torch()
                if kind % 2:
                    frame.release()
                del frame, keep

            check_no_growth(one, 5000, int(100_000 * scale))
            assert eventually(lambda: held(reader) == 0) and writer.stats().dropped == 0


@pytest.fixture
def leak():
    """A channel of which nothing is left when its test is over."""
    with sluice.Writer("leak", shape=(32, 32), dtype="float32", device=DEVICE, max_slots=8) as writer:
        with sluice.Reader("leak", hold=3) as reader:
            yield writer, reader
            assert eventually(lambda: held(reader) == 0) and writer.stats().dropped == 0


def test_twenty_thousand_arrays_that_are_sent(leak, scale):
    """Of NumPy's, in pageable and pinned memory; tensors, contiguous and not, on the GPU and the host."""
    writer, reader = leak
    plain, tensor = np.ones((32, 32), "f4"), torch.ones((32, 64), device=DEVICE)
    pinned = torch.ones((32, 32)).pin_memory()
    sources = [plain, tensor[:, :32].contiguous(), plain.T, tensor[:, ::2], pinned.numpy(), tensor[:, 32:], pinned,
               {"data": tensor[:, :32].T}]
    side = torch.cuda.Stream()

    def one(number):
        writer.send(sources[number % 8], stream=side if number % 5 == 0 else None)
        with reader.next(timeout=60) as frame:
            assert frame.sequence

    check_no_growth(one, 2000, int(20_000 * scale))


def test_twenty_thousand_fetches(leak, scale):
    """Awaited; awaited behind the frame's end; two at once; and some that are cancelled."""
    writer, reader = leak
    source, loop = np.ones((32, 32), "f4"), asyncio.new_event_loop()

    async def fetch(number):
        writer.send(source)
        frame = await reader.next_async(timeout=60)
        if number % 4 == 0:
            await asyncio.gather(frame.fetch(), frame.fetch("data"))
        elif number % 4 == 1:
            task = asyncio.ensure_future(frame.fetch())
            await asyncio.sleep(0)
            frame.release()
            await task
        elif number % 16 == 2:
            task = asyncio.ensure_future(frame.fetch())
            await asyncio.sleep(0)
            task.cancel()
        else:
            await frame.fetch()

    try:
        check_no_growth(lambda number: loop.run_until_complete(fetch(number)), 2000, int(20_000 * scale))
    finally:
        loop.close()


def test_twenty_thousand_frames_of_cupys(leak, cupy, scale):
    writer, reader = leak
    source, side = cupy.ones((32, 32), "f4"), cupy.cuda.Stream(non_blocking=True)

    def one(number):
        kind = number % 8
        if kind == 0:
            writer.send(source)
        elif kind == 1:
            writer.send(source.T)
        else:
            with writer.frame(timeout=60) as out:
                array = out.cupy() if kind % 2 else out.view(kind="cupy")
                array.fill(number)
        frame = reader.next(timeout=60)
        if kind == 2:
            keep = cupy.from_dlpack(frame)
        elif kind == 3:
            keep = cupy.asarray(frame)
        elif kind == 4:
            keep = frame.view(kind="cupy")
        elif kind == 5:
            with side:
                keep = frame.cupy()
        elif kind == 6:
            keep = frame.cupy(copy=True)
        elif kind == 7:
            keep = frame.copy_to(source)
        else:
            keep = frame.cupy()
        if kind % 2:
            frame.release()
        del frame, keep

    check_no_growth(one, 2000, int(20_000 * scale))
    side.synchronize()


def test_five_thousand_frames_of_jaxs(leak, jax, scale):
    """JAX takes some ten times as long for each: so not a hundred thousand."""
    writer, reader = leak
    total = jax.jit(lambda array: array.sum())
    source = jax.numpy.ones((32, 32), "float32")

    def one(number):
        writer.send(source, meta=b"%d" % number)
        frame = take(reader, number)
        array = frame.jax() if number % 2 else jax.dlpack.from_dlpack(frame)
        if number % 3:
            frame.release()
        total(array).block_until_ready()

    check_no_growth(one, 2000, int(5000 * scale))


def test_openings_leave_nothing(scale):
    def one(number):
        with sluice.Writer("leak", shape=(64, 64), device=DEVICE) as writer, sluice.Reader("leak") as reader:
            with sluice.Stream(DEVICE) as stream:
                with writer.frame(timeout=60, stream=stream) as out:
                    out.torch()
                frame = reader.next(timeout=60)
                frame.view()
                assert number % 2 or frame.torch() is not None

    check_no_growth(one, 10, int(100 * scale))


def test_generations_leave_nothing(scale):
    with sluice.Writer("leak", shape=(64, 64), device=DEVICE) as writer, sluice.Reader("leak") as reader:
        def one(number):
            writer.reformat(shape=(64 + number % 5, 64))
            with writer.frame(timeout=60) as out:
                shape = out.torch().shape
            frame = reader.next(timeout=60)
            assert frame.torch().shape == shape and frame.view().shape == shape

        check_no_growth(one, 15, int(100 * scale))


def test_what_fails_leaves_nothing():
    with narrow_writer("leak") as writer, sluice.Reader("leak", hold=1) as reader:
        wrong = torch.zeros(3, device=DEVICE)

        def one(_):
            for call in (lambda: writer.send(wrong), lambda: writer.try_frame(stream=5), lambda: reader.next(timeout=0),
                         lambda: writer.send(object()), lambda: writer.frame(timeout=60)["nope"],
                         lambda: sluice.Stream("cuda:99"), lambda: sluice.Reader("none")):
                with pytest.raises((sluice.Error, TypeError, KeyError, ValueError)):
                    call()

        check_no_growth(one, 50, 300)


def test_25_finalisers_on_other_threads_while_kernels_are_launched():
    """The specification's 25: streams, events and frames end on four threads; nothing fails, and nothing is left."""
    data = torch.zeros(16, device=DEVICE)
    errors = []
    with sluice.Writer("leak", shape=(32, 32), device=DEVICE, policy="wait", wait=60) as writer, sluice.Reader("leak", hold=3) as reader:
        def drop(left):
            try:
                while left:
                    left.pop()
            except BaseException as error:
                errors.append(error)

        def one(number):
            streams = [sluice.Stream(DEVICE) for _ in range(40)]
            left = [*streams, *(stream.record() for stream in streams), *(sluice.Stream.wrap(stream.to_torch()) for stream in streams[:8])]
            with writer.frame(meta=b"%d" % number) as out:
                left.append(out.torch().zero_())
            left.append(take(reader, number, stream=streams[0]))
            del streams
            threads = [threading.Thread(target=drop, args=(left[which::4],)) for which in range(4)]
            left.clear()
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                data.add_(1)
            for thread in threads:
                thread.join()

        check_no_growth(one, 20, 250)
        assert not errors and eventually(lambda: held(reader) == 0)


def test_27_ten_thousand_streams_in_a_hundred_resets():
    """The specification's 27. Of those that were closed before a reset, by it and behind it nothing is left, with resets of the
    host's between. Other libraries' streams go on."""
    theirs = torch.cuda.Stream()

    def turn(number):
        streams, host = [sluice.Stream(DEVICE) for _ in range(100)], sluice.Stream("host")
        events = [stream.record() for stream in streams]
        for thing in streams[::3] + events[::3]:
            thing.close()
        if number % 2:
            sluice.reset("host")
            with pytest.raises(sluice.StaleHandleError):
                host.synchronize()
        sluice.reset(DEVICE)
        for use in (streams[1].synchronize, streams[1].record, streams[1].__cuda_stream__, events[1].query,
                    lambda: events[1].wait(theirs)):
            with pytest.raises(sluice.StaleHandleError):
                use()
        for thing in streams + events:
            thing.close()  # in silence
        assert all(thing.closed for thing in streams + events)

    check_no_growth(turn, 10, 100)
    with torch.cuda.stream(theirs):
        assert int(torch.ones(8, device=DEVICE).sum()) == 8


def test_a_killed_writers_reader_goes_on(role):
    reader, kept, sessions = None, [], set()
    for _ in range(3):
        writer = role("write_for_ever", "cam", DEVICE)
        assert writer.read() == "open"
        reader = reader or sluice.Reader("cam", wait=60, hold=4)
        while True:
            frame = reader.next(timeout=60)
            if frame.session not in sessions:
                break
        sessions.add(frame.session)
        kept.append((frame.torch(), int(frame.meta)))
        writer.kill()
        for tensor, number in kept:  # also those of writers that are long dead
            assert (tensor == number).all()
        del frame, tensor
        kept = kept[-2:]
    assert len(sessions) == 3
    kept.clear()
    reader.close()


def test_killed_readers_cost_the_writer_nothing(role):
    with sluice.Writer("cam", shape=(256, 256), dtype="int32", device=DEVICE) as writer:
        readers = [role("read_for_ever", "cam") for _ in range(2)] + [role("hold_two", "cam")]
        number = 0

        def send():
            nonlocal number
            number += 1
            with writer.frame(timeout=60, meta=b"%d" % number) as frame:
                frame.torch().fill_(number)

        assert [reader.read() for reader in readers[:2]] == ["open"] * 2
        for _ in range(500):
            send()
        while not eventually(lambda: writer.stats().readers == 3, 0.05):
            send()
        for _ in range(100):
            send()
        assert [reader.process.poll() for reader in readers] == [None] * 3
        for reader in readers:
            reader.kill()
            for _ in range(50):
                send()
        assert eventually(lambda: writer.stats().readers == 0)
        assert eventually(lambda: writer.stats().readers_died == 3)
        with sluice.Reader("cam") as reader:
            send()
            assert (take(reader, number).torch() == number).all()


def test_a_store_into_a_frame_ends_that_process_alone(role):
    """PyTorch has no read-only memory. Sluice's next message names the cause; other processes do not notice."""
    with narrow_writer("cam") as writer, sluice.Reader("cam") as reader:
        child = role("store_into_a_frame", "cam")
        assert eventually(lambda: writer.stats().readers == 2)
        write(writer, 7)
        assert child.read() == f"copied {512 * 512}"
        assert "Error" in child.read()
        words = child.read()
        assert words.startswith("DriverError") and "only read" in words, words
        child.wait()
        for number in range(20):
            write(writer, number)
            assert (take(reader, number).torch() == number).all()


def test_another_process_reads_the_same_memory(role):
    with sluice.Writer("cam", shape=(256, 256), dtype="int32", device=DEVICE, policy="wait", wait=60) as writer:
        child = role("read_sums", "cam", 20)
        assert child.read() == "open"
        for number in range(20):
            with writer.frame() as frame:
                frame.torch().fill_(number)
        assert child.read() == " ".join(str(number * 256 * 256) for number in range(20))
