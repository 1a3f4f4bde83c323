# SPDX-License-Identifier: MIT
"""Streams and events that are closed or stale, and invalid ones."""
import gc
import threading
import time

import pytest

import gpu_kit
import sluice
from stream_kit import Foreign, come_to_no_more, device, things  # noqa: F401


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


def test_sentences_name_what_they_are_about(device):
    """By the handle, which the library's sentences have, too."""
    stream = sluice.Stream(device)
    name = repr(stream).split()[2]
    with stream:
        known = sluice.current_stream()
        with pytest.raises(sluice.BusyError, match=f"{name} of \"{device}\" is a current stream .1 times"):
            stream.close()
    assert repr(known) == repr(stream) and "closed" in repr(known)
    with pytest.raises(sluice.StreamClosedError, match=f"{name} of \"{device}\" was closed"):
        known.synchronize()
    stream = sluice.Stream(device)
    name = repr(stream).split()[2]
    with pytest.raises(sluice.InvalidError, match=f"{name} of \"{device}\" is not current on this thread"):
        stream.use().__exit__(None, None, None)
    sluice.reset(device)
    with pytest.raises(sluice.StaleHandleError, match=f"{name} of \"{device}\" has ended"):
        stream.synchronize()


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
    uses |= {"enter": stream.__enter__, "use": stream.use().__enter__, "to_torch": stream.to_torch, "to_cupy": stream.to_cupy}
    sluice.reset(device)
    assert "reset" in repr(stream) and "reset" in repr(default) and "reset" not in repr(sluice.Stream(device))
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


def test_nothing_is_left_over(gpu):
    if not gpu.fake:
        pytest.skip("the fake driver counts what is there")
    gc.collect()
    sluice.reset(gpu.device)
    before = things(gpu)
    kept = []
    for turn in range(100):  # 10,000 streams, and as many events, that end before, by and behind resets
        streams = [sluice.Stream(gpu.device) for _ in range(100)]
        events = [stream.record() for stream in streams]
        early, late = (streams[start::3] + events[start::3] for start in range(2))
        late.append(sluice.Stream("host"))
        for thing in early:
            thing.close()
        if turn % 2:
            sluice.reset("host")
        sluice.reset(gpu.device)
        for thing in late:
            thing.close()  # in silence
        assert all(thing.closed for thing in early + late)
        kept = [*kept[-40:], *streams[:2], *events[:2]]
    del kept, streams, events, early, late, thing
    gc.collect()
    come_to_no_more(gpu, before)


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
    assert before is None or come_to_no_more(gpu, before) is None


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
    assert news[-1] != old and news[-1].same_native(sluice.Stream.from_handle(native))
    news[-1].synchronize()


@pytest.mark.parametrize("wrong", [3, True, "cuda:0", 1.5, [], object(), memoryview(b"")], ids=lambda each: type(each).__name__)
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

    with pytest.raises(error) as caught:
        sluice.Stream.wrap(Bad())
    assert caught.type is error


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
