# SPDX-License-Identifier: MIT
"""Streams of other libraries, and ours with frameworks where there are some."""
import gc
import sys
import time
import types
import warnings
import weakref

import pytest

import sluice
from stream_kit import CupyLike, Foreign, TorchLike, device, on_thread  # noqa: F401


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


def test_pytorchs_own_streams_are_asked_for_two_things_and_kept_by_wrap_alone(gpu, monkeypatch):
    asked = []

    class Stream:
        def __init__(self, native, ordinal=0):
            self.has = {"cuda_stream": native, "device_index": ordinal}

        def __getattr__(self, name):
            asked.append(name)
            try:
                return self.has[name]
            except KeyError:
                raise AttributeError(name) from None

    class Theirs(Stream):
        """Somebody's own kind, which may end."""

    cuda = types.ModuleType("torch.cuda")
    cuda.Stream = Stream
    monkeypatch.setitem(sys.modules, "torch.cuda", cuda)
    with sluice.Writer("asked", shape=(4,), device=gpu.device) as writer:
        for kind in (Stream, Theirs):
            native = gpu.stream()
            theirs = kind(native)
            known = weakref.ref(theirs)
            asked.clear()
            frame = writer.frame(stream=theirs)
            assert asked[0] == ("cuda_stream" if kind is Stream else "__cuda_stream__") and len(asked) == (2 if kind is Stream else 3)
            del theirs
            assert (known() is None) == (kind is Stream)
            frame.commit()
            gpu.synchronize(native)
        theirs = Stream(gpu.stream())
        known, wrapped = weakref.ref(theirs), sluice.Stream.wrap(theirs)
        del theirs
        assert known() is not None and wrapped.query()
        wrapped.close()
        with pytest.raises(TypeError, match="cuda_stream of .* is 'x'"):
            writer.frame(stream=Stream("x"))
        with pytest.raises(TypeError):
            writer.frame(stream=Stream(gpu.stream(), "x"))
        with pytest.raises(sluice.UnsupportedError):
            writer.frame(stream=Stream(gpu.stream(), 17))
    with pytest.raises(sluice.WrongDeviceError, match="on \"host\""):
        sluice.Writer("here", shape=(4,)).frame(stream=Stream(gpu.stream()))


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


def test_several_names_of_one_native_stream(gpu):
    native = gpu.stream()
    a, b = sluice.Stream.wrap(Foreign(native)), sluice.Stream.from_handle(native, gpu.device)
    assert a != b and len({a, b}) == 2 and a.same_native(b) and a.same_native(Foreign(native))
    with a:
        assert sluice.current_stream() == a != b
    a.close()
    b.synchronize()  # each name has an end of its own
    for use in (lambda: a.same_native(b), lambda: b.same_native(a)):
        with pytest.raises(sluice.StreamClosedError):
            use()
    ours = sluice.Stream(gpu.device)
    assert sluice.Stream.wrap(ours) is ours and not ours.same_native(b) and not ours.same_native(Foreign(native))
    seen = sluice.Stream.wrap(Foreign(ours.native))
    assert seen != ours and seen.same_native(ours) and ours.same_native(seen) and seen.is_external
    ours.close()
    seen.synchronize()  # it keeps the native stream
    for zero in (0, 1):
        default = sluice.Stream.wrap(Foreign(zero))
        assert default.is_default and default.native == 0 and default == sluice.Stream.default(gpu.device)
        assert default.same_native(sluice.Stream.default(gpu.device)) and not default.same_native(seen)


def test_more_streams_than_are_found_by_their_address(gpu):
    """Of what was not used lately there is another name then, of the same stream."""
    natives = [gpu.stream() for _ in range(70)]
    names = [sluice.Stream.wrap(Foreign(native)) for native in natives]
    assert all(name.same_native(Foreign(native)) for name, native in zip(names, natives))
    assert not any(names[0].same_native(name) for name in names[1:])
    with sluice.Stream.default(gpu.device) as default:
        assert default.same_native(Foreign(0))


def test_which_native_stream(device):
    a, b = sluice.Stream(device), sluice.Stream(device)
    assert a.same_native(a) and not a.same_native(b)
    assert sluice.Stream.default(device).same_native(sluice.Stream.default(device))
    assert not a.same_native(sluice.Stream.default(device)) and not a.same_native(sluice.Stream.default("host"))
    with a.use():
        assert a.same_native(sluice.current_stream())
    for wrong in (3, None, "cuda:0", object()):
        with pytest.raises(TypeError, match="no stream"):
            a.same_native(wrong)
    b.close()
    with pytest.raises(sluice.StreamClosedError):
        a.same_native(b)
    b = sluice.Stream(device)
    sluice.reset(device)
    for use in (lambda: a.same_native(b), lambda: b.same_native(sluice.Stream(device)),
                lambda: sluice.Stream(device).same_native(b)):
        with pytest.raises(sluice.StaleHandleError, match="reset"):
            use()


def test_threads_have_a_default_stream_each(gpu):
    mine, again = sluice.Stream.from_handle(2, gpu.device), sluice.Stream.from_handle(2, gpu.device)
    theirs = on_thread(lambda: sluice.Stream.from_handle(2, gpu.device))
    assert mine.same_native(again) and not mine.same_native(theirs) and mine.native == theirs.native == 2


def test_a_stream_that_keeps_its_own_name(gpu):
    """As a class does that has both."""
    theirs = Foreign(gpu.stream())
    theirs.ours = sluice.Stream.wrap(theirs)
    known = weakref.ref(theirs)
    with theirs.ours.use():
        del theirs
        gc.collect()
        assert known() is not None  # it is the current one
        sluice.current_stream().synchronize()
    gc.collect()
    assert known() is None


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
    assert sluice.Stream.wrap(theirs).same_native(sluice.Stream.from_handle(other.native, "cuda:1"))
    assert other.same_native(theirs) and not sluice.Stream("cuda:0").same_native(theirs)
    event = sluice.Event("cuda:0")
    with pytest.raises(sluice.WrongDeviceError):
        event.record(other)
    stream = sluice.Stream("cuda:0")
    stream.wait(other)  # between GPUs streams do wait
    stream.wait(other.record())
    stream.synchronize()
    events = [sluice.Event(name, timing=True) for name in ("cuda:0", "cuda:1")]
    for one, on in zip(events, (stream, other)):
        one.record(on)
        one.synchronize()
    for one, two in (events, events[::-1]):
        with pytest.raises(sluice.WrongDeviceError, match="two devices"):
            one.elapsed(two)


def test_the_default_stream_of_a_thread(gpu):
    mine = sluice.Stream.from_handle(2, gpu.device)
    mine.synchronize()
    mine.record().synchronize()
    with pytest.raises(sluice.InvalidError, match="another thread's default stream"):
        on_thread(mine.synchronize)
    assert on_thread(lambda: sluice.Stream.from_handle(2, gpu.device).query())


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
        def is_under_way():
            nonlocal started
            started = time.monotonic()
            a.record()
            with torch.cuda.stream(stream.to_torch()):
                torch.cuda._sleep(400_000_000)
            b.record()
            try:
                return a.elapsed(b) is None
            except sluice.NotReady:
                return not b.query()

        started = 0
        assert any(is_under_way() for _ in range(20))  # the CPU may be late, for once
        b.synchronize()
        took = (time.monotonic() - started) * 1000
        assert 100 < a.elapsed(b) <= took  # by a clock of no more than 4 GHz


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
    assert sluice.Stream.wrap(theirs).same_native(stream) and stream.same_native(theirs)
