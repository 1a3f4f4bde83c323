# SPDX-License-Identifier: MIT
"""The lease ends when it should: never while an array lives, and at once when nothing does."""
import gc
import threading
import weakref

import numpy as np
import pytest

import sluice
from eventually import wait_until

NUMPY = tuple(int(part) for part in np.__version__.split(".")[:2])


@pytest.fixture
def channel():
    with sluice.Writer("cam", shape=(16, 16), slots=4, max_slots=8) as writer:
        yield writer


def held(reader):
    return reader.stats().held


def send(writer, value):
    writer.send(np.full((16, 16), value, "u1"))


def address(array):
    return array.__array_interface__["data"][0]


def test_release_with_and_death_end_the_lease(channel):
    reader = sluice.Reader("cam")
    send(channel, 1)
    frame = reader.next()
    assert held(reader) == 1 and not frame.released
    frame.release()
    assert held(reader) == 0 and frame.released and "released" in repr(frame)
    frame.release()
    send(channel, 2)
    with reader.next() as frame:
        assert held(reader) == 1
    assert held(reader) == 0
    with pytest.raises(sluice.StaleError):
        frame.__enter__()
    send(channel, 3)
    frame = reader.next()
    del frame
    assert held(reader) == 0


@pytest.mark.parametrize("make", [
    lambda f: f.numpy(), lambda f: f[0], lambda f: f["data"].numpy()[3:5, ::2], lambda f: np.asarray(f), lambda f: memoryview(f),
    lambda f: np.from_dlpack(f), lambda f: f.__dlpack__(), lambda f: f.__dlpack__(max_version=(1, 0)),
    lambda f: np.asarray(f.view())[1:], lambda f: memoryview(f.view())[1:2], lambda f: np.asarray(f[0]).T.reshape(-1, order="F"),
])
def test_a_lease_lasts_as_long_as_an_array(channel, make):
    reader = sluice.Reader("cam", hold=2)
    send(channel, 7)
    with reader.next() as frame:
        array = make(frame)
    assert held(reader) == 1
    for value in range(20, 60):
        send(channel, value)
    if isinstance(array, np.ndarray):
        assert (array == 7).all()
    elif isinstance(array, memoryview):
        assert array.tobytes()[0] == 7
    with pytest.raises(sluice.StaleError):
        frame.numpy()
    del array
    assert held(reader) == 0


def test_copies_need_no_lease(channel):
    reader = sluice.Reader("cam")
    send(channel, 7)
    frame = reader.next()
    copies = [frame.copy(), frame[0].copy(), np.array(frame)]
    if NUMPY >= (2, 1):
        copies.append(np.from_dlpack(frame, copy=True))
    frame.release()
    assert held(reader) == 0
    for copy in copies:
        assert (copy == 7).all() and copy.flags.writeable


def test_views_end_with_the_frame(channel):
    reader = sluice.Reader("cam")
    send(channel, 7)
    frame = reader.next()
    view, another = frame.view(), frame.view("data")
    assert view.shape == (16, 16) and view[3, 3] == 7 and another.nbytes == 256
    frame.release()
    assert held(reader) == 0
    for each in (view, another):
        with pytest.raises(ValueError):
            each[0, 0]


def test_a_frame_outlives_its_reader(channel):
    reader = sluice.Reader("cam")
    send(channel, 7)
    frame = reader.next()
    reader.close()
    assert (frame.numpy() == 7).all()
    with pytest.raises(sluice.StaleError):
        reader.next()
    assert channel.stats().readers == 1  # its lease is still there
    frame.release()
    wait_until(lambda: channel.stats().readers == 0)


def test_an_array_outlives_frame_reader_and_writer():
    with sluice.Writer("cam", shape=(16, 16)) as writer:
        with sluice.Reader("cam") as reader:
            send(writer, 7)
            array = reader.next().numpy()
        for value in range(50):
            send(writer, value)
        assert (array == 7).all()
        del reader
    assert (array == 7).all()
    del writer
    gc.collect()
    assert (array == 7).all()


def test_a_closed_reader_holds_up_no_writer():
    with sluice.Writer("cam", shape=4, slots=3, max_slots=3, policy="wait", wait=60) as writer:
        reader = sluice.Reader("cam", mode="in_order", hold=1)
        writer.send(bytes(4))
        array = reader.next().numpy()
        reader.close()
        for _ in range(20):  # of which none waits until its time is over
            writer.send(b"abcd")
        assert array.tolist() == [0, 0, 0, 0]


def test_a_dropped_reader_holds_up_no_writer():
    with sluice.Writer("cam", shape=4, slots=3, max_slots=3, policy="wait", wait=60) as writer:
        reader = sluice.Reader("cam", mode="in_order", hold=1)
        writer.send(bytes(4))
        array = reader.next().numpy()
        del reader
        for _ in range(20):
            writer.send(b"abcd")
        assert array.tolist() == [0, 0, 0, 0]


def test_the_iterator_ends_the_lease_before(channel):
    reader = sluice.Reader("cam", mode="in_order", hold=1)
    for value in range(3):
        send(channel, value)
    frames = []
    for frame in reader:
        frames.append(frame)
        assert held(reader) == 1
        if len(frames) == 3:
            break
    assert [f.released for f in frames] == [True, True, False]
    reader.close()
    assert frames[2].released


def test_the_iterator_leaves_a_lease_whose_array_lives(channel):
    reader = sluice.Reader("cam", mode="in_order", hold=3)
    arrays = []
    for value in range(3):
        send(channel, value)
    for frame in reader:
        arrays.append(frame.numpy())
        if len(arrays) == 3:
            break
    assert held(reader) == 3
    assert [int(a[0, 0]) for a in arrays] == [0, 1, 2]
    send(channel, 3)
    with pytest.raises(sluice.LimitError, match=r"\(1, 2, 3\)"):
        next(reader)
    arrays.clear()
    assert next(reader).sequence == 4 and held(reader) == 1


def test_cycles_are_collected(channel):
    reader = sluice.Reader("cam")
    send(channel, 1)

    class Holder:
        pass

    holder = Holder()
    holder.me, holder.frame, holder.array = holder, reader.next(), None
    holder.array = holder.frame.numpy()
    gone = weakref.ref(holder)
    del holder
    assert held(reader) == 1
    gc.collect()
    assert gone() is None and held(reader) == 0


def test_zero_copies_by_pointer(channel):
    reader = sluice.Reader("cam", hold=2)
    with channel.frame() as frame:
        writers = frame.numpy()
        assert address(writers) == frame[0].address == address(np.asarray(frame)) == address(np.from_dlpack(frame))
        assert frame.__array_interface__["data"] == (frame[0].address, False)
        writers[:] = 3
        slot = frame.slot
    frame = reader.next()
    everything = [frame.numpy(), frame.numpy("data"), np.asarray(frame), np.asarray(frame[0]), np.asarray(frame.view()),
                  np.from_dlpack(frame), np.from_dlpack(frame[0]), np.asarray(memoryview(frame))]
    assert {address(array) for array in everything} == {frame[0].address}
    assert frame.__array_interface__["data"] == (frame[0].address, True) and frame.slot == slot
    at = {}
    for _ in range(40):  # a slot stays where it is
        send(channel, 1)
        with reader.next() as each:
            assert at.setdefault(each.slot, each[0].address) == each[0].address
    assert len(at) >= 2


def test_arrays_die_on_any_thread(channel):
    reader = sluice.Reader("cam", hold=2)
    for _ in range(50):
        send(channel, 1)
        box = [reader.next().numpy()]
        thread = threading.Thread(target=box.clear)
        thread.start()
        thread.join()
        assert held(reader) == 0


def test_writer_outlived_by_its_frame():
    frame = sluice.Writer("cam", shape=4).frame()
    frame.numpy()[:] = 5
    frame.commit()
    assert frame.sequence == 1
    frame = sluice.Writer("cam", shape=4).frame()
    array = frame.numpy()
    del frame
    array[:] = 3
    sluice.Writer("cam", shape=4).close() if array.base is None else None
    del array
    sluice.Writer("cam", shape=4).close()
