# SPDX-License-Identifier: MIT
import gc
import select
import threading
import time

import numpy as np
import pytest

import sluice
from eventually import SECONDS, wait_until


@pytest.fixture
def channel():
    with sluice.Writer("cam", shape=4) as writer:
        yield writer


def commit(writer, count=1):
    for _ in range(count):
        writer.send(bytes([writer.stats().committed % 256] * 4))


def test_newest_skips_and_counts(channel):
    reader = sluice.Reader("cam")
    commit(channel, 1)
    assert reader.next().sequence == 1
    commit(channel, 5)
    frame = reader.next()
    assert frame.sequence == 6 and frame.missed == 4
    assert reader.stats().missed == 4 and reader.stats().taken == 2


def test_in_order_gives_every_frame_within_its_depth(channel):
    reader = sluice.Reader("cam", mode="in_order", depth=3)
    commit(channel, 3)
    assert [frame.sequence for _, frame in zip(range(3), reader)] == [1, 2, 3]
    commit(channel, 10)
    got = []
    while (frame := reader.next(timeout=60) if reader.stats().lag else None):
        got.append(frame.sequence)
        frame.release()
    assert got[-1] == 13 and got == sorted(got) and len(got) >= 3


def test_every_third(channel):
    reader = sluice.Reader("cam", mode="in_order", every=3, depth=6)
    commit(channel, 6)
    assert [reader.next(timeout=60).sequence, reader.next(timeout=60).sequence] == [1, 4]


def test_every_shares_no_work(channel):
    """Two readers that take every other frame take the same ones: docs/python-multiprocessing.md has how work is shared."""
    readers = [sluice.Reader("cam", mode="in_order", every=2, depth=6) for _ in range(2)]
    commit(channel, 4)
    for reader in readers:
        assert [reader.next(timeout=60).sequence, reader.next(timeout=60).sequence] == [1, 3]


def test_latest(channel):
    for mode in ("newest", "in_order"):
        reader = sluice.Reader("cam", mode=mode)
        assert reader.latest() is None or True
        commit(channel, 3)
        last = channel.stats().committed
        frame = reader.latest()
        assert frame.sequence == last and reader.latest() is None
        frame.release()
    channel.close()
    with pytest.raises(sluice.Closed):
        reader.latest()


def test_time_outs_are_in_seconds(channel):
    reader = sluice.Reader("cam")
    for timeout in (0, 0.1, 1e-9, np.float32(0.05)):
        started = time.monotonic()
        with pytest.raises(TimeoutError) as caught:
            reader.next(timeout=timeout)
        assert isinstance(caught.value, sluice.Timeout) and timeout * 0.99 <= time.monotonic() - started < timeout + SECONDS
    with pytest.raises(sluice.Timeout):
        reader.next(0)


def test_for_ends_on_a_clean_close(channel):
    reader = sluice.Reader("cam", mode="in_order")
    commit(channel, 3)
    threading.Timer(0.1, channel.close).start()
    assert [frame.sequence for frame in reader] == [1, 2, 3]
    assert list(reader) == []


def test_a_reader_may_come_first():
    with pytest.raises(FileNotFoundError, match="cam"):
        sluice.Reader("cam")
    started = time.monotonic()
    with pytest.raises(FileNotFoundError):
        sluice.Reader("cam", wait=0.2)
    assert 0.2 <= time.monotonic() - started < SECONDS
    reader = sluice.Reader("cam", wait=None)
    assert reader.format is None
    with pytest.raises(sluice.NoWriter):
        reader.next(timeout=0.1)
    with sluice.Writer("cam", shape=4) as writer:
        while not writer.stats().readers:
            time.sleep(0.01)
        commit(writer)
        assert reader.next(timeout=60).sequence == 1
        assert not reader.stats().connected or reader.stats().sessions == 1


def test_waits_for_a_writer():
    made = []
    timer = threading.Timer(0.2, lambda: made.append(sluice.Writer("cam", shape=4)))
    timer.start()
    reader = sluice.Reader("cam", wait=60)
    timer.join()
    assert reader.format == {"data": sluice.Tensor((4,), "uint8")}


def test_a_new_session_is_told():
    reader = None
    for session in range(3):
        with sluice.Writer("cam", shape=4) as writer:
            reader = reader or sluice.Reader("cam")
            while not writer.stats().readers:
                time.sleep(0.01)
            commit(writer)
            while True:  # the writer may know of the reader before the reader knows of it
                try:
                    frame = reader.next(timeout=60)
                    break
                except sluice.Closed:
                    time.sleep(0.01)
            assert frame.new_session and frame.new_format and frame.session == writer.stats().session
            frame.release()
            commit(writer)
            frame = reader.next(timeout=60)
            assert not frame.new_session and not frame.new_format
            frame.release()
            writer.reformat(shape=5)
            writer.send(bytes(5))
            frame = reader.next(timeout=60)
            assert not frame.new_session and frame.new_format
            frame.release()


def test_read_only_means_read_only(channel):
    reader = sluice.Reader("cam")
    commit(channel)
    frame = reader.next()
    view = frame.numpy()
    assert not view.flags.writeable and frame[0].read_only
    with pytest.raises(ValueError):
        view[0] = 1
    with pytest.raises(ValueError):
        view.flags.writeable = True
    assert memoryview(frame).readonly and frame.view().readonly
    assert np.asarray(frame).flags.writeable is False and np.asarray(frame[0]).flags.writeable is False
    assert np.from_dlpack(frame).flags.writeable is False
    copy = frame.copy()
    copy[0] = 77
    assert view[0] == 0


def test_writable_readers_where_the_writer_allows_it(channel):
    with pytest.raises(sluice.Error):
        sluice.Reader("cam", writable=True)
    with sluice.Writer("open", shape=4, writable=True) as writer:
        one, two = sluice.Reader("open", writable=True), sluice.Reader("open")
        writer.send(bytes(4))
        mine, theirs = one.next(), two.next()
        mine.numpy()[2] = 5
        assert theirs.numpy().tolist() == [0, 0, 5, 0] and not theirs.numpy().flags.writeable


def test_out_of_leases_names_them(channel):
    reader = sluice.Reader("cam", hold=2)
    held = []
    for _ in range(2):
        commit(channel)
        held.append(reader.next().numpy())
    commit(channel)
    with pytest.raises(sluice.LimitError, match=r"2 frames already \(1, 2\)"):
        reader.next(timeout=60)
    with pytest.raises(sluice.LimitError):
        next(reader)
    with pytest.raises(sluice.LimitError):
        reader.latest()
    held.pop()
    assert reader.next().sequence == 3


def test_hold_is_what_the_channel_allows():
    with sluice.Writer("few", shape=4, slots=3, max_slots=3) as writer:
        reader = sluice.Reader("few")
        writer.send(bytes(4))
        frame = reader.next()
        with pytest.raises(sluice.LimitError):
            reader.next(timeout=0)
        assert frame
        with pytest.raises(sluice.LimitError):
            sluice.Reader("few", hold=2)


def test_fileno_is_readable_when_next_would_not_wait(channel):
    reader = sluice.Reader("cam")
    fd = reader.fileno()
    assert fd == reader.fileno()
    with pytest.raises(sluice.Timeout):
        reader.next(timeout=0)
    assert select.select([reader], [], [], 0)[0] == []
    commit(channel)
    assert select.select([reader], [], [], SECONDS)[0] == [reader]
    assert reader.next(timeout=0).sequence == 1
    assert select.select([fd], [], [], 0.05)[0] == []
    channel.close()
    assert select.select([fd], [], [], SECONDS)[0] == [fd]
    with sluice.Writer("cam", shape=4) as writer:
        while not writer.stats().readers:
            time.sleep(0.01)
        with pytest.raises((sluice.Timeout, sluice.Closed)):
            reader.next(timeout=0)
        commit(writer)
        assert select.select([fd], [], [], SECONDS)[0] == [fd] and reader.fileno() == fd


def test_closing():
    with sluice.Writer("cam", shape=4) as writer:
        with sluice.Reader("cam") as reader:
            commit(writer)
        reader.close()
        assert reader.closed and repr(reader) == "<sluice.Reader, closed>"
        for call in (reader.next, reader.latest, reader.fileno, reader.stats, lambda: next(reader), lambda: iter(reader),
                     lambda: reader.format, lambda: reader.name):
            with pytest.raises(sluice.StaleError):
                call()
        wait_until(lambda: writer.stats().readers == 0)


def test_closing_ends_a_wait_on_another_thread(channel):
    reader = sluice.Reader("cam")
    threading.Timer(0.1, reader.close).start()
    with pytest.raises(sluice.StaleError):
        reader.next()  # or this would never end


def test_eviction_is_told_once():
    with sluice.Writer("cam", shape=4, slots=3, max_slots=3, lease_timeout=0.05) as writer:
        reader = sluice.Reader("cam", hold=1)
        commit(writer)
        frame = reader.next()
        view = frame.numpy()
        commit(writer)
        time.sleep(0.1)
        begun = [writer.frame(timeout=60), writer.frame(timeout=60)]
        del view
        with pytest.raises(sluice.LostError):
            frame.release()
        assert writer.stats().evicted == 1
        with pytest.raises(sluice.LostError):
            reader.next(timeout=60)
        for each in begun:
            each.commit()
        assert reader.next(timeout=60).sequence == 4


def test_as_many_as_the_writer_allows():
    with sluice.Writer("most", shape=4, slots=3, max_slots=5) as writer, sluice.Reader("most", hold="most") as reader:
        held = []
        for _ in range(3):
            writer.frame().commit()
            held.append(reader.next())
        assert reader.stats().hold == 3
        writer.frame().commit()
        with pytest.raises(sluice.LimitError, match="holds 3 frames"):
            reader.next()


@pytest.mark.parametrize("options", [
    dict(mode="oldest"), dict(mode=1), dict(depth=-1), dict(depth=99), dict(hold=-1), dict(hold=99), dict(hold=1.5),
    dict(every=-1), dict(wait=-1), dict(wait="x"), dict(spin=-1), dict(uids=[1 << 40]), dict(uids=5), dict(device="cuda:77"),
    dict(ahead_timeout=0), dict(ahead_timeout=-1), dict(ahead_timeout="x"), dict(staged="often"), dict(device=7), dict(nonsense=1),
    dict(hold=1 << 70), dict(uids=["x"]),
])
def test_wrong_options(channel, options):
    with pytest.raises((sluice.Error, ValueError, TypeError, OverflowError)) as caught:
        sluice.Reader("cam", **options)
    assert str(caught.value)
    gc.collect()
    wait_until(lambda: channel.stats().readers == 0)


def test_wrong_calls(channel):
    reader = sluice.Reader("cam")
    commit(channel)
    for call in (lambda: reader.next(-1), lambda: reader.next("x"), lambda: reader.next(1, 2), lambda: reader.next(what=1),
                 lambda: reader.next(1, timeout=1), lambda: reader.next(timeout=float("nan"))):
        with pytest.raises((TypeError, ValueError)):
            call()
    for call in (lambda: reader.next(stream=1), lambda: reader.latest(stream="x")):
        with pytest.raises(TypeError, match="is no stream"):
            call()
    frame = reader.next()
    for call in (lambda: frame["nope"], lambda: frame[1], lambda: frame[1.5], lambda: frame[None].x,
                 lambda: frame.numpy("nope"), lambda: frame.view(3), lambda: frame.numpy(pixel_format="bgr24"),
                 lambda: frame.numpy(pixel_format=3), lambda: frame.__dlpack__(1), lambda: frame.__dlpack__(what=1)):
        with pytest.raises((TypeError, LookupError, AttributeError, ValueError)):
            call()
    with pytest.raises(KeyError, match="data"):
        frame["nope"]
    for kind in (sluice.Frame, sluice.Array, sluice.WriterFrame):
        with pytest.raises(TypeError):
            kind()
    import pickle
    for thing in (reader, channel, frame):
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(thing)


def test_channels_are_listed(channel, folder):
    assert sluice.channels() == ["cam"] and sluice.channels(folder) == ["cam"]
    assert sluice.channels(folder + "/none") == []
