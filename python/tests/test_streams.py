# SPDX-License-Identifier: MIT
"""Streams and events, on the host and on a GPU (or the fake driver): what they are, wait for and say."""
import contextlib
import copy
import ctypes
import gc
import pickle
import threading
import time
import warnings
import weakref

import pytest

import gpu_kit
import sluice


@pytest.fixture(params=["host", "cuda:0"])
def device(request):
    if request.param != "host":
        request.getfixturevalue("gpu")
    yield request.param
    gc.collect()


class Foreign:
    """Another library's stream."""

    def __init__(self, native):
        self.native = native

    def __cuda_stream__(self):
        return 0, self.native


class TorchLike:
    def __init__(self, native):
        self.cuda_stream = native


class CupyLike:
    def __init__(self, native):
        self.ptr = native

    def wait_event(self, event):
        raise NotImplementedError


def on_thread(function):
    """What a function gives, or raises, on another thread."""
    told = []

    def run():
        try:
            told.append((function(), None))
        except BaseException as error:
            told.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if told[0][1]:
        raise told[0][1]
    return told[0][0]


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
    event = sluice.Event(device, timing=True)
    assert event.device == device and event.timing and not event.closed
    event.close()
    event.close()
    assert event.closed and "closed" in repr(event)
    stream = sluice.Stream(device)
    for use in (event.record, event.wait, stream.wait, stream.record):
        with pytest.raises(sluice.StaleHandleError, match="closed"):
            use(event if use in (stream.wait, stream.record) else stream)
    for use in (event.query, event.synchronize, event.__enter__):
        with pytest.raises(sluice.StaleHandleError, match="closed"):
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


# ---- the current one ----

def test_withs_restore_what_was_before(device):
    a, b = sluice.Stream(device), sluice.Stream(device)
    assert sluice.current_stream() is None and sluice.current_stream(device) is None
    with a:
        assert sluice.current_stream() == a
        with b:
            assert sluice.current_stream() == b
            with a:
                assert sluice.current_stream() == a
            assert not a.closed and sluice.current_stream() == b
            with contextlib.suppress(KeyError), a.use():
                assert sluice.current_stream() == a
                raise KeyError
            assert sluice.current_stream() == b
        assert b.closed and sluice.current_stream() == a
    assert a.closed and sluice.current_stream() is None


def test_use_neither_waits_nor_closes(device):
    stream = sluice.Stream(device)
    use = stream.use()
    with use as same, use:
        assert same is stream and sluice.current_stream(device) == stream
    assert sluice.current_stream() is None and not stream.closed
    stream.close()
    with pytest.raises(sluice.StreamClosedError), use:
        pass
    assert sluice.current_stream() is None


def test_a_with_may_be_left_before_one_inside_it(device):
    """As generators do."""
    a, b = sluice.Stream(device), sluice.Stream(device)
    outer, inner = a.use(), b.use()
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert sluice.current_stream() == b
    inner.__exit__(None, None, None)
    assert sluice.current_stream() is None
    with pytest.raises(sluice.InvalidError, match="not current on this thread"):
        outer.__exit__(None, None, None)


def test_the_current_stream_is_of_its_device(gpu):
    with sluice.Stream("host") as host, sluice.Stream(gpu.device) as stream:
        assert sluice.current_stream() == stream == sluice.current_stream(gpu.device)
        assert sluice.current_stream("host") == host


def test_each_thread_has_its_own(device):
    shared, other = sluice.Stream(device), sluice.Stream(device)
    turns = threading.Barrier(2)

    def run(mine):
        before = sluice.current_stream()
        with mine.use():
            turns.wait()
            with shared.use():
                turns.wait()
                assert sluice.current_stream() == shared
                turns.wait()
            assert sluice.current_stream() == mine
            turns.wait()
        assert sluice.current_stream() == before

    mine = sluice.Stream(device)
    thread = threading.Thread(target=run, args=(mine,))
    with shared.use():
        assert on_thread(sluice.current_stream) is None
        thread.start()
        run(other)
        assert sluice.current_stream() == shared
    thread.join()


def test_a_thread_that_ends_inside_leaves_nothing(device):
    stream = sluice.Stream(device)
    on_thread(lambda: stream.use().__enter__())
    with pytest.raises(sluice.InvalidError, match="not current on this thread"):
        stream.use().__exit__(None, None, None)
    for _ in range(200):  # the thread is gone for Python a moment before it is for the system
        with contextlib.suppress(sluice.BusyError):
            stream.close()
            break
        time.sleep(0.01)
    assert stream.closed


def test_a_current_stream_cannot_be_closed(device):
    with sluice.Stream(device) as stream:
        with pytest.raises(sluice.BusyError, match="leave its `with` first"):
            stream.close()
        with pytest.raises(sluice.BusyError):
            on_thread(stream.close)
        stream.synchronize()
    assert stream.closed


def test_left_while_it_is_still_current_elsewhere(device):
    stream = sluice.Stream(device)
    entered, leave = threading.Event(), threading.Event()

    def run():
        with stream.use():
            entered.set()
            leave.wait()
            sluice.current_stream().synchronize()
            stream.record().close()

    thread = threading.Thread(target=run)
    with pytest.warns(ResourceWarning, match="still the current stream"):
        with stream:
            thread.start()
            entered.wait()
    assert not stream.closed
    leave.set()
    thread.join()
    assert stream.closed
    with pytest.raises(sluice.StreamClosedError):
        stream.synchronize()


def test_too_many_withs(device):
    stream = sluice.Stream(device)
    with contextlib.ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(stream.use())
        with pytest.raises(sluice.LimitError, match="64 current streams"):
            stream.use().__enter__()
    assert sluice.current_stream() is None


def test_a_wait_that_fails_joins_what_the_body_raised(gpu):
    with pytest.raises(KeyError) as raised:
        with sluice.Stream(gpu.device) as stream:
            gpu.call("StreamBeginCapture", ctypes.c_void_p(stream.native), gpu_kit.THREAD_LOCAL)
            raise KeyError("body")
    assert isinstance(raised.value.__context__, sluice.CaptureError)
    assert not stream.closed and sluice.current_stream() is None
    graph = ctypes.c_void_p()
    gpu.call("StreamEndCapture", ctypes.c_void_p(stream.native), ctypes.byref(graph))
    stream.close()


# ---- closed, stale, wrong ----

def uses_of(stream, event, device):
    return {"synchronize": stream.synchronize, "query": stream.query, "record": stream.record,
            "record there": lambda: event.record(stream), "wait there": lambda: event.wait(stream),
            "wait": lambda: stream.wait(event), "wait for a stream": lambda: stream.wait(sluice.Stream(device)),
            "be waited for": lambda: sluice.Stream(device).wait(stream), "native": lambda: stream.native,
            **({"__cuda_stream__": stream.__cuda_stream__} if device != "host" else {})}


def test_a_closed_stream_is_refused(device):
    stream = sluice.Stream(device)
    event = stream.record()
    uses = uses_of(stream, event, device)
    stream.close()
    uses |= {"enter": stream.__enter__, "use": stream.use().__enter__}
    for name, use in uses.items():
        with pytest.raises(sluice.StreamClosedError, match="closed") as error:
            use()
        assert isinstance(error.value, (sluice.StaleError, RuntimeError)), name
    for make in (stream.to_torch, stream.to_cupy):
        with pytest.raises(sluice.StreamClosedError):
            make()


def test_nothing_goes_to_the_default_stream_instead(gpu):
    if not gpu.fake:
        pytest.skip("the fake driver counts what it is asked")
    stream, event = sluice.Stream(gpu.device), sluice.Event(gpu.device)
    event.record(stream)
    uses = uses_of(stream, event, gpu.device)
    native = stream.native
    stream.close()
    gate = gpu.gate(gpu_kit.LEGACY)  # what went there would be behind this
    for use in uses.values():
        with pytest.raises(sluice.StreamClosedError):
            use()
    event.synchronize()
    gate.open()
    assert native


def test_after_a_reset_all_is_stale(device):
    stream, event, default = sluice.Stream(device), sluice.Event(device), sluice.Stream.default(device)
    event.record(stream)
    uses = uses_of(stream, event, device)
    sluice.reset(device)
    for name, use in uses.items():
        with pytest.raises(sluice.StaleHandleError, match="reset"):
            use()
            pytest.fail(name)
    for use in (event.query, event.synchronize, default.synchronize):
        with pytest.raises(sluice.StaleHandleError, match="reset"):
            use()
    assert not stream.closed
    stream.close()
    event.close()
    assert stream.closed and event.closed
    with sluice.Stream(device) as stream:
        stream.synchronize()
    sluice.Stream.default(device).synchronize()


def test_a_reset_waits_and_inside_a_with_it_is_left(gpu):
    with sluice.Stream(gpu.device) as stream:
        gate = gpu.gate(stream.native)
        started = time.monotonic()
        threading.Timer(0.1, gate.open).start()
        sluice.reset(gpu.device)
        assert time.monotonic() - started > 0.05
        with pytest.raises(sluice.StaleHandleError):
            sluice.Event(gpu.device).record()
    assert stream.closed and sluice.current_stream() is None


def things(gpu):
    """What the fake driver still has of ours: streams and events."""
    class Things(ctypes.Structure):
        _fields_ = [(name, ctypes.c_long) for name in ("contexts", "streams", "events", "handles", "reservations",
                                                       "mappings", "registrations", "pinned", "modules", "graphs",
                                                       "allocations")]

    gpu.library.fake_things.restype = Things
    now = gpu.library.fake_things()
    return now.streams, now.events


def test_nothing_is_left_over(gpu):
    if not gpu.fake:
        pytest.skip("the fake driver counts what is there")
    gc.collect()
    sluice.reset(gpu.device)
    before = things(gpu)
    kept = []
    for turn in range(100):
        streams = [sluice.Stream(gpu.device) for _ in range(20)]
        events = [stream.record() for stream in streams]
        if turn % 3 == 0:
            sluice.reset(gpu.device)
        if turn % 3 == 1:
            sluice.reset("host")
            _ = [thing.close() for thing in streams + events]
        kept = [*kept[-40:], *streams[:2], *events[:2]]
    del kept, streams, events
    gc.collect()
    assert things(gpu) == before


def test_finalisers_run_anywhere(gpu):
    gc.collect()
    before = things(gpu) if gpu.fake else None
    left = [sluice.Stream(gpu.device) for _ in range(200)] + [sluice.Event(gpu.device) for _ in range(200)]
    left += [sluice.Stream.wrap(Foreign(stream.native)) for stream in left[:50]]

    def drop():
        while left:
            left.pop()
            gc.collect(0)

    threads = [threading.Thread(target=drop) for _ in range(4)]
    with sluice.Stream(gpu.device) as busy:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            busy.record().close()
        for thread in threads:
            thread.join()
    sluice.Stream("host").close()  # a call, by which all is gone
    assert before is None or things(gpu) == before


def test_an_address_that_comes_again_is_another_stream(gpu):
    old = sluice.Stream(gpu.device)
    native = old.native
    viewed = sluice.Stream.wrap(Foreign(native))
    viewed.close()
    old.close()
    news = []
    for _ in range(1000):
        news.append(sluice.Stream(gpu.device))
        if news[-1].native == native:
            break
        if len(news) > 20:
            news.clear()
    else:
        pytest.skip("the driver did not give that address again")
    with pytest.raises(sluice.StreamClosedError):
        old.synchronize()
    assert news[-1] != old and sluice.Stream.from_handle(native) == news[-1]
    news[-1].synchronize()


@pytest.mark.parametrize("wrong", [3, True, "cuda:0", 1.5, [], object(), memoryview(b"")], ids=repr)
def test_what_is_no_stream(device, wrong):
    stream = sluice.Stream(device)
    for use in (stream.wait, sluice.Event(device).record, sluice.Stream.wrap):
        with pytest.raises(TypeError, match="from_handle" if isinstance(wrong, int) else "no stream"):
            use(wrong)
    with pytest.raises(TypeError):
        stream.wait(None)


@pytest.mark.parametrize("said, error", [
    ([0, 5], TypeError), ((0,), TypeError), ((0, 5, 6), TypeError), (5, TypeError), (("0", 5), TypeError),
    ((0, "5"), TypeError), ((0, None), TypeError), ((0, True), TypeError), ((True, 5), TypeError), ((1, 5), ValueError),
    ((-1, 5), ValueError), ((0, -5), ValueError), ((0, 1 << 64), ValueError), (None, TypeError),
], ids=repr)
def test_a_stream_that_says_nonsense(gpu, said, error):
    class Bad:
        def __cuda_stream__(self):
            return said

    with pytest.raises(error):
        sluice.Stream.wrap(Bad())


def test_a_stream_that_fails_to_say(gpu):
    class Bad:
        def __cuda_stream__(self):
            raise KeyError("theirs")

    with pytest.raises(KeyError, match="theirs"):
        sluice.Stream.wrap(Bad())


def test_from_handle_takes_addresses_only(device):
    for wrong in (None, "5", 1.5, True, object()):
        with pytest.raises(TypeError):
            sluice.Stream.from_handle(wrong, device)
    for wrong in (-1, 1 << 70):
        with pytest.raises(OverflowError):
            sluice.Stream.from_handle(wrong, device)


# ---- of other libraries ----

@pytest.mark.parametrize("kind", [Foreign, TorchLike, CupyLike])
def test_streams_of_other_libraries(gpu, kind):
    native = gpu.stream()
    theirs = kind(native)
    known = weakref.ref(theirs)
    stream = sluice.Stream.wrap(theirs)
    assert stream.is_external and stream.native == native and stream.device == gpu.device
    del theirs
    gc.collect()
    assert known() is not None  # we keep it
    with stream as same:
        assert same is stream and sluice.current_stream() == stream
        stream.record().synchronize()
    assert not stream.closed
    stream.close()
    assert stream.closed
    gc.collect()
    assert known() is None
    again = sluice.Stream.wrap(kind(native))
    sluice.reset(gpu.device)
    with pytest.raises(sluice.StaleHandleError):
        again.query()
    gpu.synchronize(native)  # it is theirs, and still there
    assert sluice.Stream.from_handle(native).query()


def test_an_owner_is_let_go_of_on_whatever_thread(gpu):
    theirs = Foreign(gpu.stream())
    known = weakref.ref(theirs)
    stream = sluice.Stream.wrap(theirs)
    del theirs
    box = [stream]
    del stream
    on_thread(box.clear)
    assert known() is None
    owner = Foreign(0)
    known = weakref.ref(owner)
    stream = sluice.Stream.from_handle(gpu.stream(), gpu.device, owner=owner)
    del owner
    assert known() is not None
    del stream
    gc.collect()
    assert known() is None


def test_wrapping_is_by_value(gpu):
    native = gpu.stream()
    a, b = sluice.Stream.wrap(Foreign(native)), sluice.Stream.from_handle(native, gpu.device)
    assert a == b and hash(a) == hash(b)
    a.close()
    b.synchronize()  # each name has an end of its own
    ours = sluice.Stream(gpu.device)
    assert sluice.Stream.wrap(ours) is ours
    seen = sluice.Stream.wrap(Foreign(ours.native))
    assert seen == ours and seen.is_external
    ours.close()
    seen.synchronize()  # it keeps the native stream
    for zero in (0, 1):
        default = sluice.Stream.wrap(Foreign(zero))
        assert default.is_default and default.native == 0 and default == sluice.Stream.default(gpu.device)


def test_memory_is_no_stream(gpu):
    class Memory:  # CuPy's has a `ptr`
        ptr = 4096

    with pytest.raises(TypeError, match="no stream"):
        sluice.Stream.wrap(Memory())


def test_the_protocol(gpu):
    stream = sluice.Stream(gpu.device)
    assert stream.__cuda_stream__() == (0, stream.native) and type(stream.__cuda_stream__()) is tuple
    assert sluice.Stream.default(gpu.device).__cuda_stream__() == (0, 0)
    assert sluice.Stream.wrap(Foreign(stream.native)).__cuda_stream__() == (0, stream.native)


def test_host_streams_have_no_protocol():
    assert not hasattr(sluice.Stream("host"), "__cuda_stream__")
    for make in (sluice.Stream("host").to_torch, sluice.Stream("host").to_cupy):
        with pytest.raises(sluice.WrongDeviceError, match="on the host"):
            make()


def test_of_another_device(gpu):
    try:
        other = sluice.Stream("cuda:1")
    except sluice.UnsupportedError:
        pytest.skip("there is one GPU")
    with pytest.raises(sluice.WrongDeviceError):
        sluice.Stream.wrap(Foreign(other.native), device="cuda:0")
    with pytest.raises(sluice.WrongDeviceError):
        sluice.Stream.wrap(Foreign(gpu.stream()), device="cuda:1")
    with pytest.raises(sluice.WrongDeviceError):
        sluice.Stream.wrap(other, device="cuda:0")
    theirs = TorchLike(other.native)
    theirs.device_index = 1
    assert sluice.Stream.wrap(theirs) == sluice.Stream.from_handle(other.native, "cuda:1") == other
    event = sluice.Event("cuda:0")
    with pytest.raises(sluice.WrongDeviceError):
        event.record(other)
    stream = sluice.Stream("cuda:0")
    stream.wait(other)  # between GPUs streams do wait
    stream.synchronize()


def test_the_default_stream_of_a_thread(gpu):
    mine = sluice.Stream.from_handle(2, gpu.device)
    mine.synchronize()
    mine.record().synchronize()
    with pytest.raises(sluice.InvalidError, match="default stream of the thread"):
        on_thread(mine.synchronize)
    assert on_thread(lambda: sluice.Stream.from_handle(2, gpu.device).query())


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
        del stream
        gc.collect()
        assert things(gpu)[0] == before[0] + 1
    sluice.Stream("host").close()
    assert things(gpu) == before


# ---- with frameworks, where there are some ----

def frameworks(gpu):
    if gpu.fake:
        pytest.skip("PyTorch and CuPy do not run on the fake driver")


def test_pytorch(gpu):
    frameworks(gpu)
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no GPU")
    default = sluice.Stream.wrap(torch.cuda.current_stream())
    assert default.is_default and default.native == 0 and default.device == gpu.device
    side = torch.cuda.Stream()
    known = weakref.ref(side)
    stream = sluice.Stream.wrap(side)
    assert stream.native == side.cuda_stream
    native = side.cuda_stream
    del side
    gc.collect()
    assert known() is not None
    stream.close()
    stream = sluice.Stream(gpu.device)
    theirs = stream.to_torch()
    assert theirs.cuda_stream == stream.native and theirs.device_index == 0
    stream.close()
    with torch.cuda.stream(theirs):  # it keeps the native stream
        x = torch.full((1 << 20,), 3.0, device="cuda")
    theirs.synchronize()
    assert float(x.sum()) == 3 << 20 and native
    back = sluice.Stream.default(gpu.device).to_torch()
    assert back.cuda_stream == 0 and back == torch.cuda.default_stream()


def test_pytorch_waits_for_ours(gpu):
    frameworks(gpu)
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no GPU")
    x = torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    first, second = sluice.Stream(gpu.device), torch.cuda.Stream()
    for turn in range(1, 201):
        with torch.cuda.stream(first.to_torch()):
            torch.cuda._sleep(200_000)
            x.fill_(turn)
        sluice.Stream.wrap(second).wait(first)
        with torch.cuda.stream(second):
            total = x.sum()
        second.synchronize()
        assert float(total) == turn * (1 << 20)
        first.wait(second)


def test_the_times_of_a_kernel(gpu):
    frameworks(gpu)
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no GPU")
    with sluice.Stream(gpu.device) as stream, sluice.Event(timing=True) as a, sluice.Event(timing=True) as b:
        a.record()
        started = time.monotonic()
        with torch.cuda.stream(stream.to_torch()):
            torch.cuda._sleep(400_000_000)
        b.record()
        assert time.monotonic() - started < 0.1 and not b.query()
        with pytest.raises(sluice.NotReady):
            a.elapsed(b)
        b.synchronize()
        took = (time.monotonic() - started) * 1000
        assert took * 0.9 - 5 < a.elapsed(b) <= took


def test_cupy(gpu):
    frameworks(gpu)
    cupy = pytest.importorskip("cupy")
    assert sluice.Stream.wrap(cupy.cuda.Stream.null).is_default
    side = cupy.cuda.Stream(non_blocking=True)
    stream = sluice.Stream.wrap(side)
    assert stream.native == side.ptr and stream.device == gpu.device
    known = weakref.ref(side)
    del side
    gc.collect()
    assert known() is not None
    stream.synchronize()
    stream.close()
    stream = sluice.Stream(gpu.device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theirs = stream.to_cupy()
        assert sluice.Stream.default(gpu.device).to_cupy().ptr == 0
    native = stream.native
    assert theirs.ptr == native
    stream.close()
    with theirs:
        x = cupy.full(1 << 20, 3.0)
    theirs.synchronize()
    assert float(x.sum()) == 3 << 20
    del theirs
    gc.collect()
    sluice.Stream(gpu.device).close()
    kept = sluice.Stream.wrap(cupy.cuda.Stream.ptds)
    kept.synchronize()
    with pytest.raises(sluice.InvalidError):
        on_thread(kept.synchronize)


def test_cuda_core(gpu):
    frameworks(gpu)
    core = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    device = getattr(core, "Device", None) or pytest.skip("this cuda.core has no Device")
    gpu0 = device(0)
    gpu0.set_current()
    stream = sluice.Stream(gpu.device)
    theirs = gpu0.create_stream(stream)
    assert int(theirs.handle) == stream.native
    assert sluice.Stream.wrap(theirs) == stream
