# SPDX-License-Identifier: MIT
"""Error messages name the object and the fix, in the terms of Python's interface."""
import copy
import pickle
import re
import sys

import pytest

import sluice


@pytest.fixture
def frames(device):
    """One that is read and one that is begun."""
    with sluice.Writer("cam", shape=(4, 6), device=device, slots=4) as writer, sluice.Reader("cam") as reader:
        writer.frame().commit()
        yield reader.next(timeout=60), writer.frame()


@pytest.fixture(params=["host", "gpu"])
def device(request):
    return "host" if request.param == "host" else request.getfixturevalue("gpu").device


@pytest.mark.parametrize("give", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_is_of_a_channel_is_not_pickled(frames, give):
    for frame in frames:
        for thing in (frame, frame[0]):
            with pytest.raises(TypeError, match=r"^<sluice\..* cannot be pickled or copied.*copy\(\).*open the channel"):
                give(thing)


@pytest.mark.parametrize("what, wrong", [("max_version", wrong) for wrong in ((), (1,), (1, 0, 0), 3, "10", (1.5, 0), ("a", 0))]
                         + [("dl_device", wrong) for wrong in ((), (2,), (2, 0, 0), 2, "20", (2.0, 0), ("a", 0), (None, None))])
def test_dlpack_says_what_a_pair_must_be(frames, what, wrong):
    for frame in frames:
        with pytest.raises(TypeError, match=re.escape(f"{what} must be a tuple of two ints, or None, not {wrong!r}")):
            frame.__dlpack__(**{what: wrong})


def test_dlpack_takes_numbers_of_any_size(frames, device):
    stream = None if device == "host" else 1
    for frame in frames:
        assert "versioned" in repr(frame.__dlpack__(stream=stream, max_version=(2**70, 0)))
        assert "versioned" not in repr(frame.__dlpack__(stream=stream, max_version=(-2**70, 0)))
        for where in ((2**70, 0), (2, 2**70)):
            with pytest.raises(BufferError, match="does not copy it to another device"):
                frame.__dlpack__(stream=stream, dl_device=where)


@pytest.mark.parametrize("wrong", [1.5, "x", object()])
def test_dlpack_says_what_a_stream_must_be(gpu, wrong):
    with sluice.Writer("cam", shape=4, device=gpu.device) as writer, writer.frame() as frame:
        with pytest.raises(TypeError, match=re.escape(f"an int, as in DLPack, or None, not {wrong!r}: ") + r".*next\(stream="):
            frame.__dlpack__(stream=wrong)


@pytest.mark.parametrize("wrong", [0, -2, -2**70, 2**70])
def test_dlpack_says_which_numbers_are_streams(gpu, wrong):
    with sluice.Writer("cam", shape=4, device=gpu.device) as writer, writer.frame() as frame:
        with pytest.raises(ValueError, match=f"^stream is {wrong}: it must be 1 for the default stream"):
            frame.__dlpack__(stream=wrong)


FRAMEWORKS = {"torch": "PyTorch", "cupy": "CuPy", "jax": "JAX"}


class Absent:
    """Finds none of them, whatever this machine has."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FRAMEWORKS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.fixture
def unloaded(monkeypatch):
    for name in list(sys.modules):
        if name.partition(".")[0] in FRAMEWORKS:
            monkeypatch.delitem(sys.modules, name)
    sluice._sluice._forget()
    yield
    sluice._sluice._forget()


@pytest.fixture
def without(unloaded, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])


def test_a_framework_that_is_not_installed(without, frames, device):
    calls = [("torch", lambda each: each.torch()), ("torch", lambda each: each.torch(copy=True)), ("jax", lambda each: each.jax())]
    if device != "host":
        calls += [("cupy", lambda each: each.cupy())]
    ways = [(name, lambda call=call, each=each: call(each)) for frame in frames for each in (frame, frame[0]) for name, call in calls]
    if device != "host":
        for frame in frames:
            ways += [("torch", frame.view), ("cupy", lambda frame=frame: frame.view(kind="cupy"))]
        ways += [("torch", sluice.Stream(device).to_torch), ("cupy", sluice.Stream(device).to_cupy)]
    for name, way in ways:
        with pytest.raises(ModuleNotFoundError, match=rf"^{FRAMEWORKS[name]} is not installed: pip install {name}.*(numpy\(\)|__cuda_)") as error:
            way()
        assert error.value.name == name


def test_a_package_that_a_framework_lacks_is_named_as_it_is(unloaded, frames, monkeypatch, tmp_path):
    """PyTorch is there, and what it needs is not."""
    (tmp_path / "torch.py").write_text("import of_which_there_is_none")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="^No module named 'of_which_there_is_none'"):
        frames[0].torch()


def test_numpy_that_is_not_installed(run):
    run("""
import sys
sys.modules["numpy"] = None
import sluice
with sluice.Writer("cam", shape=4) as writer, writer.frame() as frame:
    for way in (frame.numpy, frame[0].numpy, frame.copy):
        try:
            way()
        except ModuleNotFoundError as error:
            assert str(error).startswith("NumPy is not installed: pip install numpy") and "view()" in str(error), error
        else:
            raise SystemExit("it was found")
""")


def test_events_say_how_they_are_recorded(device):
    stream, event = sluice.Stream(device), sluice.Event(device)
    timed, late = sluice.Event(device, timing=True), sluice.Event(device, timing=True)
    timed.record(stream)
    for call, whose in ((event.query, event), (event.synchronize, event), (lambda: stream.wait(event), event),
                        (lambda: event.wait(stream), event), (lambda: timed.elapsed(late), late), (lambda: late.elapsed(timed), late)):
        with pytest.raises(sluice.NotRecordedError, match=re.escape(f"{whose!r} was never recorded")) as error:
            call()
        assert "event.record(stream)" in str(error.value) and "sluice_" not in str(error.value).lower()
    event.record(stream)
    for start, stop in ((timed, event), (event, timed)):
        with pytest.raises(sluice.NoTimingError, match=re.escape(f'{event!r} takes no times: make it by sluice.Event("{device}", timing=True)')):
            start.elapsed(stop)


@pytest.mark.parametrize("known", [False, True])
def test_a_stream_of_another_kind_of_device(gpu, known):
    for device, other in ((gpu.device, "host"), ("host", gpu.device)):
        with sluice.Writer(device.replace(":", ""), shape=4, device=device) as writer, sluice.Reader(device.replace(":", "")) as reader:
            writer.frame().commit()
            if known:
                reader.next(timeout=60).release()
                writer.frame().commit()
            for take in (lambda stream: reader.next(timeout=60, stream=stream), lambda stream: reader.latest(stream=stream)):
                with pytest.raises(sluice.WrongDeviceError) as error:
                    take(sluice.Stream(other))
                text = str(error.value)
                assert text.startswith("channel '") and f'is of device "{other}"' in text and "; in Python, None)" in text
            reader.next(timeout=60, stream=None).release()
