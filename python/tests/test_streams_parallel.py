# SPDX-License-Identifier: MIT
"""sluice.parallel(): branches of a stream's work that run side by side, and the work after all of them."""
import ctypes
import gc

import pytest

import sluice
from stream_kit import TorchLike, come_to_no_more, device, on_thread, things  # noqa: F401


def test_branches_are_streams_of_their_own(device):
    with sluice.Stream(device) as stream, sluice.parallel() as ways:
        with ways.branch() as one:
            assert sluice.current_stream() == one != stream and one.device == device
            with ways.branch() as two:
                assert sluice.current_stream() == two
            assert sluice.current_stream() == one and two not in (one, stream)
        assert sluice.current_stream() == stream and not one.closed
    assert one.closed and two.closed


def test_a_stream_is_needed(device):
    with pytest.raises(TypeError, match="needs a stream"), sluice.parallel():
        pass
    stream = sluice.Stream(device)
    with sluice.parallel(stream) as ways:
        pass
    with pytest.raises(RuntimeError, match="inside its parallel"), ways.branch():
        pass
    with pytest.raises(RuntimeError, match="entered already"), ways:
        pass
    with pytest.raises(RuntimeError, match="inside its parallel"), sluice.parallel(stream).branch():
        pass


def test_branches_begin_behind_the_stream(gpu):
    stream = sluice.Stream(gpu.device)
    gate = gpu.gate(stream.native)
    with sluice.parallel(stream) as ways, ways.branch() as one:
        assert not one.query()
        gate.open()
        one.synchronize()


def test_branches_go_side_by_side_and_the_stream_comes_behind(gpu):
    stream = sluice.Stream(gpu.device)
    with sluice.parallel(stream) as ways:
        with ways.branch() as one:
            gates = [gpu.gate(one.native)]
        with ways.branch() as two:
            two.synchronize()
            gates.append(gpu.gate(two.native))
        stream.synchronize()  # not yet
    assert not stream.query()
    gates[1].open()
    assert not stream.query()
    gates[0].open()
    stream.synchronize()


def test_branches_on_threads_of_their_own(gpu):
    stream = sluice.Stream(gpu.device)

    def work():
        gpu.enter()
        with ways.branch() as one:
            return gpu.gate(one.native)

    with sluice.parallel(stream) as ways:
        gates = [on_thread(work) for _ in range(3)]
    for gate in gates:
        assert not stream.query()
        gate.open()
    stream.synchronize()


def test_what_another_library_has_is_joined_too(gpu):
    native = gpu.stream()
    with sluice.parallel(TorchLike(native)) as ways, ways.branch() as one:
        gate = gpu.gate(one.native)
    theirs = sluice.Stream.from_handle(native, gpu.device)
    assert not theirs.query()
    gate.open()
    theirs.synchronize()


def test_an_exception_joins_and_is_seen(gpu):
    stream = sluice.Stream(gpu.device)
    with pytest.raises(KeyError), sluice.parallel(stream) as ways, ways.branch() as one:
        gate = gpu.gate(one.native)
        raise KeyError
    assert one.closed and not stream.query()
    gate.open()
    stream.synchronize()


def test_joining_that_fails(device):
    stream = sluice.Stream(device)
    with pytest.raises(sluice.StreamClosedError), sluice.parallel(stream) as ways, ways.branch():
        stream.close()
    stream = sluice.Stream(device)
    with pytest.raises(KeyError) as caught, sluice.parallel(stream) as ways, ways.branch():
        stream.close()
        raise KeyError
    assert isinstance(caught.value.__context__, sluice.StreamClosedError)


def test_in_a_capture_it_becomes_a_part_of_the_graph(gpu):
    gc.collect()
    sluice.reset(gpu.device)
    before = things(gpu) if gpu.fake else None
    word = gpu.word()
    address = gpu.device_pointer(word).value
    stream = sluice.Stream(gpu.device)
    with gpu.capture(stream.native) as graph:
        with sluice.parallel(stream) as ways:
            for number in (1, 2):
                with ways.branch() as one:
                    gpu.fill(address + number, number, 1, one.native)
        gpu.fill(address, 3, 1, stream.native)
    assert graph.nodes() == 3 and word.value == 0
    graph.replay(gpu.stream())
    assert ctypes.string_at(ctypes.addressof(word), 4) == bytes([3, 1, 2, 0])
    stream.close()
    del one, ways
    gc.collect()
    sluice.reset(gpu.device)  # the streams that it lends
    assert before is None or come_to_no_more(gpu, before) is None
