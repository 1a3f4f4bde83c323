# SPDX-License-Identifier: MIT
"""Streams that are closed, reset, or somebody else's, beside PyTorch. Numbers are those of the specification's tests."""
import gc
import weakref

import pytest

import sluice
from needs import torch
from work import DEVICE, SIDE, narrow_writer, spin, write


def test_26_nothing_runs_where_a_stream_was_closed():
    closed, event = sluice.Stream(DEVICE), sluice.Event(DEVICE)
    closed.close()
    closed.close()
    with narrow_writer("n") as writer, sluice.Reader("n") as reader:
        for call in (closed.synchronize, lambda: closed.record(event), lambda: closed.wait(event), closed.__cuda_stream__,
                     lambda: writer.try_frame(stream=closed), lambda: writer.send(torch.zeros(4, device=DEVICE), stream=closed),
                     lambda: reader.next(timeout=0, stream=closed), lambda: closed.native):
            with pytest.raises(sluice.StreamClosedError) as caught:
                call()
            assert isinstance(caught.value, (sluice.StaleError, RuntimeError))
        assert reader.latest() is None and writer.stats().committed == 0


def test_26_so_it_is_200_times_while_the_default_stream_is_busy():
    """What went there instead would count, or would not be known to have been done: neither is."""
    counter = torch.zeros((SIDE, SIDE), dtype=torch.int32, device=DEVICE)
    ones = torch.ones_like(counter)
    with narrow_writer("n") as writer, sluice.Reader("n") as reader:
        write(writer, 7)
        frame = reader.next(timeout=60)
        for _ in range(200):
            closed, event = sluice.Stream(DEVICE), sluice.Event(DEVICE)
            view = sluice.Stream.wrap(closed.to_torch())
            closed.close()
            view.close()
            spin(0.05)
            for call in (closed.synchronize, closed.query, lambda: closed.record(event), lambda: event.record(view),
                         closed.__cuda_stream__, lambda: frame.copy_to(counter, stream=closed), lambda: frame.used_on(view),
                         lambda: writer.send(ones, stream=view), lambda: writer.try_frame(stream=closed), closed.to_torch):
                with pytest.raises(sluice.StreamClosedError):
                    call()
            with pytest.raises(sluice.NotRecordedError):
                event.query()
        torch.cuda.synchronize()
        assert not counter.any() and writer.stats().committed == 1 and (frame.torch() == 7).all()


def wrapped(end):
    """One of PyTorch's streams, of which a name of ours has ended in this way."""
    theirs = torch.cuda.Stream()
    ours = sluice.Stream.wrap(theirs)
    assert ours.is_external and not ours.is_default and ours.native == theirs.cuda_stream
    if end == "with":
        with ours:
            assert sluice.current_stream() == ours
        with pytest.raises(KeyError), ours.use():
            raise KeyError
        assert not ours.closed and ours.query()
    elif end == "close":
        ours.close()
        assert ours.closed
    elif end == "reset":
        sluice.reset(DEVICE)
        with pytest.raises(sluice.StaleHandleError):
            ours.query()
    return theirs


@pytest.mark.parametrize("end", ["with", "close", "collected", "reset"])
def test_29_a_borrowed_stream_is_never_ended(end):
    theirs = wrapped(end)
    gc.collect()
    sluice.Stream("host").close()  # what was left to end has ended
    data = torch.zeros(16, device=DEVICE)
    torch.cuda.synchronize()
    with torch.cuda.stream(theirs):
        data.add_(1)
    theirs.synchronize()
    assert (data == 1).all() and sluice.Stream.wrap(theirs).query()


class Owner:
    """Somebody's stream, which ends with this object."""

    def __init__(self):
        self.stream = torch.cuda.Stream()

    def __cuda_stream__(self):
        return 0, self.stream.cuda_stream


@pytest.mark.parametrize("kind", [Owner, lambda: torch.cuda.Stream()], ids=["protocol", "torch"])
def test_29_the_owner_of_a_borrowed_stream_is_kept(kind):
    owner = kind()
    gone = weakref.ref(owner)
    ours = sluice.Stream.wrap(owner)
    del owner
    gc.collect()
    assert gone() is not None
    del ours
    gc.collect()
    assert gone() is None


def test_29_a_stream_of_another_gpu(two_gpus):
    with torch.cuda.device(1):
        theirs = torch.cuda.Stream()
    with pytest.raises((sluice.WrongDeviceError, ValueError)):
        sluice.Stream.wrap(theirs, DEVICE)
    with narrow_writer("n") as writer:
        with pytest.raises((sluice.WrongDeviceError, ValueError)):
            writer.try_frame(stream=theirs)
