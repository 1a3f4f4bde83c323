# SPDX-License-Identifier: MIT
"""Streams and events, on the host and on a GPU (or the fake driver): what they are, and wait for."""
import contextlib
import copy
import ctypes
import gc
import pickle
import threading
import time
import weakref

import pytest

import gpu_kit
import sluice
from eventually import wait_until
from stream_kit import Foreign, come_to_no_more, device, on_thread, things  # noqa: F401


# ---- what they are ----

def test_a_stream_is_made_and_closed(device):
    stream = sluice.Stream(device, priority=-1)
    assert stream.device == device and not stream.closed and not stream.is_default and not stream.is_external
    assert (stream.native != 0) == (device != "host")
    stream.close()
    stream.close()
    assert stream.closed
    assert "closed" in repr(stream) and device in repr(stream)


def test_an_event_is_made_and_closed(device):
    event = sluice.Event(device, timing=True, sleep=True)
    assert event.device == device and event.timing and not event.closed
    event.close()
    event.close()
    assert event.closed and "closed" in repr(event)
    stream = sluice.Stream(device)
    for use in (event.record, event.wait, stream.wait, stream.record):
        with pytest.raises(sluice.EventClosedError, match="closed"):
            use(event if use in (stream.wait, stream.record) else stream)
    for use in (event.query, event.synchronize, event.__enter__):
        with pytest.raises(sluice.EventClosedError, match="closed"):
            use()


def test_with_closes_and_shows_what_the_body_raised(device):
    with sluice.Stream(device) as stream, sluice.Event(device) as event:
        event.record()
        assert not stream.closed and not event.closed
    assert stream.closed and event.closed
    with pytest.raises(KeyError), sluice.Stream(device) as stream, sluice.Event(device) as event:
        raise KeyError("body")
    assert stream.closed and event.closed and sluice.current_stream() is None


def test_they_are_known_by_what_they_name(device):
    a, b = sluice.Stream(device), sluice.Stream(device)
    assert a == a and a != b and len({a, b, a}) == 2 and a != 3
    with a:
        assert sluice.current_stream() == a and hash(sluice.current_stream()) == hash(a)
        known = sluice.current_stream()
    assert known == a and known.closed
    with pytest.raises(sluice.StreamClosedError):
        known.synchronize()
    with pytest.raises(sluice.StreamClosedError):
        b.wait(known)
    assert sluice.Stream.default(device) == sluice.Stream.default(device)
    x, y = sluice.Event(device), sluice.Event(device)
    assert x == x and x != y and len({x, y}) == 2
    assert weakref.ref(a)() is a and weakref.ref(x)() is x


def test_they_stay_in_their_process(device):
    for thing in (sluice.Stream(device), sluice.Event(device)):
        for give in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled or copied"):
                give(thing)


def test_they_have_no_subclasses_and_no_more_attributes(device):
    for thing in (sluice.Stream(device), sluice.Event(device)):
        kind = type(thing)
        with pytest.raises(TypeError, match="not an acceptable base type"):
            type("Own", (kind,), {})
        with pytest.raises(AttributeError):
            thing.more = 1
        assert kind.__module__ == "sluice" and repr(kind) == f"<class 'sluice.{kind.__name__}'>"


def test_the_default_stream(device):
    stream = sluice.Stream.default(device)
    assert stream.is_default and stream.native == 0 and not stream.is_external
    stream.synchronize()
    with stream as same:
        assert same is stream and sluice.current_stream(device) == stream
    assert not stream.closed  # a `with` closes what Sluice made
    stream.close()
    assert stream.closed
    sluice.Stream.default(device).synchronize()


@pytest.mark.parametrize("name", ["", "cuda", "gpu", "cuda:-1", "cuda:x", "host:0"])
def test_names_that_are_no_devices(name):
    for make in (sluice.Stream, sluice.Event, sluice.Stream.default, sluice.reset, sluice.synchronize,
                 sluice.current_stream):
        with pytest.raises(sluice.InvalidError, match="not the name of a device"):
            make(name)


def test_a_uuid_is_another_name_of_the_device(gpu):
    with pytest.raises(sluice.UnsupportedError) as error:
        sluice.Stream("cuda:999")
    if "GPU-" not in str(error.value):
        pytest.skip("the driver did not tell a UUID")
    uuid = str(error.value).partition("GPU-")[2][:36]
    for name in (f"cuda:GPU-{uuid}", f"cuda:{uuid}"):
        stream = sluice.Stream(name)
        assert stream.device == "cuda:0"
        with stream:
            assert sluice.current_stream("cuda:0") == stream == sluice.current_stream(name)
        stream = sluice.Stream.default(name)
        assert stream == sluice.Stream.default("cuda:0")


# ---- what they wait for ----

def test_the_cpu_waits_for_a_stream(gpu):
    stream = sluice.Stream(gpu.device)
    assert stream.query()
    gate = gpu.gate(stream.native)
    assert not stream.query()
    event = stream.record()
    assert not event.query()
    started = time.monotonic()
    threading.Timer(0.2, gate.open).start()
    event.synchronize()
    stream.synchronize()
    assert time.monotonic() - started > 0.1
    assert stream.query() and event.query()


def test_an_event_may_be_slept_for(gpu):
    """Without a CPU that asks again and again, as the driver does it else (the fake one for 3 ms)."""
    clock, spent = time.pthread_getcpuclockid(threading.get_ident()), 0.002

    def took(sleep, **how):
        with sluice.Stream(gpu.device, sync_on_exit=False) as stream, sluice.Event(gpu.device, sleep=sleep, **how) as event:
            gate = gpu.gate(stream.native)
            event.record()

            def open_when_spent():
                while time.clock_gettime(clock) - began < spent:
                    time.sleep(0.001)
                gate.open()

            opener = threading.Timer(0.1, gate.open) if sleep else threading.Thread(target=open_when_spent)
            began = time.clock_gettime(clock)
            opener.start()
            if sleep:  # to start a thread takes time, too
                began = time.clock_gettime(clock)
            event.synchronize()
            return time.clock_gettime(clock) - began

    wait_until(lambda: took(True) < spent)  # a machine that is busy with others may take more of it for the same
    wait_until(lambda: took(True, timing=True) < spent)
    assert took(False) >= spent  # or this would never end


def test_on_the_host_nothing_is_ever_waited_for():
    with sluice.Stream("host") as a, sluice.Stream("host") as b:
        event = a.record()
        b.wait(event)
        b.wait(a)
        assert a.query() and b.query() and event.query()
        a.synchronize()
        event.synchronize()
        sluice.synchronize("host")


@pytest.mark.parametrize("how", ["event", "stream", "event.wait", "to the default"])
def test_a_stream_waits_for_another(gpu, how):
    first = sluice.Stream(gpu.device)
    second = sluice.Stream.default(gpu.device) if how == "to the default" else sluice.Stream(gpu.device)
    gate = gpu.gate(first.native)
    if how == "event.wait":
        first.record().wait(second)
    else:
        second.wait(first.record() if how == "event" else first)
    behind = second.record()
    time.sleep(0.02)
    assert not behind.query()
    gate.open()
    behind.synchronize()
    assert first.query()


def test_a_wait_is_for_the_last_mark_at_that_time(gpu):
    slow, waiter = sluice.Stream(gpu.device), sluice.Stream(gpu.device)
    event = slow.record()
    waiter.wait(event)
    gate = gpu.gate(slow.native)
    slow.record(event)  # moves the mark, not the wait
    waiter.synchronize()
    assert not event.query()
    gate.open()
    event.synchronize()


def test_times(device):
    stream = sluice.Stream(device)
    with sluice.Event(device, timing=True) as a, sluice.Event(device, timing=True) as b:
        with pytest.raises(sluice.NotRecordedError):
            a.elapsed(b)
        started = time.monotonic()
        a.record(stream)
        a.synchronize()
        time.sleep(0.05)
        b.record(stream)
        b.synchronize()
        assert 45 < a.elapsed(b) < (time.monotonic() - started) * 1000 + 1 and b.elapsed(a) < -45
    with sluice.Event(device) as a, sluice.Event(device) as b:
        a.record(stream)
        b.record(stream)
        with pytest.raises(sluice.NoTimingError):
            a.elapsed(b)
        with pytest.raises(TypeError):
            a.elapsed(stream)


def test_times_of_what_is_not_reached_yet(gpu):
    stream = sluice.Stream(gpu.device)
    a, b = sluice.Event(gpu.device, timing=True), sluice.Event(gpu.device, timing=True)
    a.record(stream)
    gate = gpu.gate(stream.native)
    b.record(stream)
    a.synchronize()
    with pytest.raises(sluice.NotReady):
        a.elapsed(b)
    gate.open()
    b.synchronize()
    assert a.elapsed(b) >= 0


def test_an_event_that_was_never_recorded(device):
    event, stream = sluice.Event(device), sluice.Stream(device)
    for use in (event.query, event.synchronize, lambda: event.wait(stream), lambda: stream.wait(event)):
        with pytest.raises(sluice.NotRecordedError):
            use()


def test_an_event_without_a_stream(device):
    event = sluice.Event(device)
    for use in (event.record, event.wait):
        with pytest.raises(TypeError, match="give stream="):
            use()
    with sluice.Stream(device):
        event.record()
        event.wait()
        event.synchronize()


def test_between_the_host_and_a_gpu_nothing_waits(gpu):
    host, device = sluice.Stream("host"), sluice.Stream(gpu.device)
    event = host.record()
    for use in (lambda: host.wait(device), lambda: device.wait(host), lambda: device.wait(event),
                lambda: device.record(event), lambda: host.wait(Foreign(device.native))):
        with pytest.raises(sluice.WrongDeviceError):
            use()


def test_other_threads_run_while_one_waits(gpu):
    slow, other = sluice.Stream(gpu.device), sluice.Stream(gpu.device)
    gate = gpu.gate(slow.native)
    mark = slow.record()
    waits = [threading.Thread(target=wait) for wait in
             (slow.synchronize, mark.synchronize, lambda: sluice.synchronize(gpu.device))]
    for thread in waits:
        thread.start()
    time.sleep(0.05)
    for _ in range(1000):  # or this would never end
        other.record(event := sluice.Event(gpu.device))
        event.close()
    assert all(thread.is_alive() for thread in waits)
    gate.open()
    for thread in waits:
        thread.join()


def test_a_device_is_waited_for(gpu):
    streams = [sluice.Stream(gpu.device) for _ in range(3)]
    outside = gpu.stream()
    streams.append(sluice.Stream.wrap(Foreign(outside)))
    gates = [gpu.gate(stream.native) for stream in streams]
    for gate in gates:
        threading.Timer(0.1, gate.open).start()
    sluice.synchronize(gpu.device)
    assert all(stream.query() for stream in streams)


def test_close_does_not_wait_and_with_does(gpu):
    gate = gpu.gate((stream := sluice.Stream(gpu.device)).native)
    stream.close()  # or this would never end
    gate.open()
    with sluice.Stream(gpu.device) as stream:
        mark = stream.record()
        gate = gpu.gate(stream.native)
        stream.record(mark)
        started = time.monotonic()
        threading.Timer(0.2, gate.open).start()
    assert time.monotonic() - started > 0.1 and mark.query()


def test_a_with_that_waits_for_nothing(gpu):
    with sluice.Stream(gpu.device, sync_on_exit=False) as stream:
        gate = gpu.gate(stream.native)
        mark = stream.record()
        with stream, stream.use(), sluice.current_stream():
            pass
        assert not stream.closed  # the outermost one closes
    assert stream.closed and not mark.query() and sluice.current_stream() is None
    gate.open()
    mark.synchronize()  # what was queued has run


# ---- threads, contexts, captures ----

def test_a_thread_without_a_context(gpu):
    def run():
        with sluice.Stream(gpu.device) as stream, sluice.Event(gpu.device) as event:
            event.record()
            stream.wait(event)
            event.synchronize()
        current = ctypes.c_void_p()
        gpu.call("CtxGetCurrent", ctypes.byref(current))
        return current.value

    assert on_thread(run) is None


def test_the_context_stays_as_it_was(gpu):
    def current():
        now = ctypes.c_void_p()
        gpu.call("CtxGetCurrent", ctypes.byref(now))
        return now.value

    before = current()
    assert before
    for device in ("cuda:0", "cuda:1"):
        with contextlib.suppress(sluice.UnsupportedError), sluice.Stream(device) as stream:
            stream.wait(stream.record())
            stream.query()
            assert current() == before
            sluice.synchronize(device)
            sluice.reset(device)
        assert current() == before


def test_a_stream_that_captures(gpu):
    stream, event, before = sluice.Stream(gpu.device), sluice.Event(gpu.device), sluice.Stream(gpu.device).record()
    with gpu.capture(stream.native) as graph:
        for use in (stream.synchronize, stream.query, stream.close, lambda: stream.wait(before),
                    lambda: sluice.synchronize(gpu.device), lambda: sluice.reset(gpu.device)):
            with pytest.raises(sluice.CaptureError):
                use()
        event.record(stream)
        with pytest.raises(sluice.CaptureError):
            event.synchronize()
        dropped = sluice.Stream.wrap(Foreign(stream.native))
        del dropped
        gc.collect()
    assert graph.nodes() == 0
    stream.synchronize()
    stream.close()


def test_finalisers_break_no_capture(gpu):
    capturing = sluice.Stream(gpu.device)
    left = [sluice.Stream(gpu.device) for _ in range(20)]
    left += [stream.record() for stream in left] + [sluice.Stream.wrap(Foreign(gpu.stream()))]

    def drop():
        left.clear()
        gc.collect()
        with sluice.Stream(gpu.device) as stream:
            stream.record().synchronize()

    with gpu.capture(capturing.native, gpu_kit.GLOBAL) as graph:
        on_thread(drop)
    assert graph.nodes() == 0  # and ending it did not fail


def test_one_of_ours_that_captures_when_it_is_dropped_ends_later(gpu):
    if not gpu.fake:
        pytest.skip("the fake driver counts what is there")
    gc.collect()
    sluice.reset(gpu.device)
    before = things(gpu)
    stream = sluice.Stream(gpu.device)
    native = stream.native
    with gpu.capture(native):
        there = things(gpu)[0]
        del stream
        gc.collect()
        assert things(gpu)[0] == there
    sluice.Stream("host").close()
    come_to_no_more(gpu, before)
