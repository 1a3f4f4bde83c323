# SPDX-License-Identifier: MIT
"""Frames on a GPU, and sluice.reset(): channels go on, streams of ours have ended, and other libraries' have not."""
import asyncio

import pytest

import sluice
from dl import take
from gpu_frames import SIZE, ends_only_then, free_slots, publish, reader, wait_until, writer  # noqa: F401
from gpu_kit import LEGACY
from stream_kit import Foreign

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")


@pytest.mark.parametrize("how", ["ours", "wrapped", "entered"])
def test_frames_take_no_stream_that_a_reset_has_ended(gpu, writer, reader, how):
    """Else work on another library's stream, which lives on, would be published before it is done."""
    publish(gpu, writer, 5)
    frame = reader.next(timeout=60)
    stream = sluice.Stream.wrap(Foreign(gpu.stream())) if how == "wrapped" else sluice.Stream(gpu.device)
    given = {} if how == "entered" else {"stream": stream}
    target = bytearray(SIZE)

    async def wait():
        await reader.next_async(timeout=0, **given)

    calls = [lambda: writer.frame(**given), lambda: writer.try_frame(**given), lambda: writer.send(bytes(SIZE), **given),
             lambda: reader.next(timeout=0, **given), lambda: reader.latest(**given), lambda: asyncio.run(wait()),
             lambda: frame.copy_to(target, **given)]
    calls += [lambda: frame.__cuda_array_interface__] if how == "entered" else [lambda: frame.used_on(stream)]
    with stream.use():
        sluice.reset(gpu.device)
        if how == "entered":
            for call in calls:
                with pytest.raises(sluice.StaleHandleError, match="reset"):
                    call()
    if how != "entered":
        for call in calls:
            with pytest.raises(sluice.StaleHandleError, match="reset"):
                call()
    assert writer.stats().committed == 1 and target == bytes(SIZE)
    frame.release()
    assert len(free_slots(writer)) == 3


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("end", ["release", "cancel", "commit"])
def test_other_libraries_streams_work_on_behind_a_reset(gpu, writer, reader, end, count):
    """A frame that was taken before it ends behind what they are given after it."""
    streams = [gpu.stream() for _ in range(count)]
    if end == "release":
        publish(gpu, writer, 5)
    frame = reader.next(timeout=60) if end == "release" else writer.frame(stream=Foreign(streams[0]))
    slot, taken = frame.slot, [take(frame, stream) for stream in streams]
    sluice.reset(gpu.device)
    gates = [gpu.gate(stream) for stream in streams]
    gpu.fill(taken[0].data, 6, SIZE, streams[0]) if end != "release" else None
    del taken
    getattr(frame, end)()
    if end == "release":
        publish(gpu, writer, 6)
    if end != "commit":
        ends_only_then(writer, slot, gates)
        return
    for gate in gates:
        assert reader.latest() is None
        gate.open()
    with reader.next(timeout=60) as frame:
        assert gpu.read(take(frame, 1).data, SIZE) == bytes([6]) * SIZE


@pytest.mark.parametrize("which", ["the default one, then another", "another, then the default one", "two others"])
def test_frames_are_taken_on_several_streams_behind_a_reset(gpu, writer, reader, which):
    """Sluice's own streams, on which they wait for each other, were ended by it as well."""
    for value in range(3):
        streams = [gpu.stream(), gpu.stream() if which == "two others" else LEGACY]
        if which == "the default one, then another":
            streams.reverse()
        gates = []
        with writer.frame(stream=sluice.Stream.from_handle(streams[0], gpu.device)) as frame:
            taken = take(frame, streams[0] or 1)
            gates.append(gpu.gate(streams[0]))
            gpu.fill(taken.data, value, SIZE, streams[0])
            found = gpu.look(take(frame, streams[1] or 1).data, SIZE, streams[1])
            assert (frame.__cuda_array_interface__["stream"] or 1) not in streams
        assert reader.latest() is None
        gates[0].open()
        with reader.next(timeout=60):
            gpu.synchronize(streams[1])
            assert bytes(found) == bytes([value]) * SIZE
        sluice.reset(gpu.device)


@pytest.mark.parametrize("whose", ["ours", "another library's"])
def test_the_cuda_array_interface_names_no_stream_that_a_reset_has_ended(gpu, writer, whose):
    """One of ours is gone, and its address may be another's; another library's was given more since, for which a stream of the
    channel's waits."""
    native = gpu.stream()
    stream = sluice.Stream(gpu.device) if whose == "ours" else sluice.Stream.from_handle(native, gpu.device)
    frame = writer.frame(stream=stream)
    ended = stream.native
    assert frame.__cuda_array_interface__["stream"] == ended
    sluice.reset(gpu.device)
    gate, others = gpu.gate(native), []
    while len(others) < 64 and ended not in (native, *others):
        others.append(gpu.stream())
    named = frame.__cuda_array_interface__["stream"]
    assert named != ended
    if whose == "ours":
        wait_until(lambda: gpu.is_idle(named))
    else:
        assert not gpu.is_idle(named)
    gate.open()
    gpu.synchronize(named)
    frame.cancel()


@pytest.mark.parametrize("writable", [False, True])
def test_copies_go_on_behind_a_reset(gpu, writable):
    """Their streams were ended by it as well."""
    async def fetch(frame):
        return await frame.fetch()

    def copy_to(frame):
        target = numpy.zeros(SIZE, "u1")
        frame.copy_to(target)
        return target

    with (sluice.Writer("cam", shape=SIZE, device=gpu.device, writable=writable) as writer,
          sluice.Reader("cam", writable=writable) as reader):
        for value in range(4):
            given = sluice.Stream(gpu.device)
            for copy in (lambda frame: frame.numpy(), lambda frame: frame.copy(), lambda frame: asyncio.run(fetch(frame)), copy_to):
                writer.send(numpy.full(SIZE, value, "u1"))
                for stream in (None, given):
                    with reader.next(timeout=60, stream=stream) as frame:
                        assert (copy(frame) == value).all()
                    if stream is None:
                        writer.send(numpy.full(SIZE, value, "u1"))
            writer.send(numpy.full(SIZE, value, "u1"))
            frame = reader.next(timeout=60, stream=given)
            sluice.reset(gpu.device)
            with frame:
                assert (copy_to(frame) == value).all()  # the stream that it was taken for is gone
