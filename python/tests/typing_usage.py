# SPDX-License-Identifier: MIT
"""Not run: mypy --strict reads it. Lines that must be errors are marked."""
from typing import Any, assert_type

import numpy

import sluice


def write(image: numpy.typing.NDArray[numpy.uint8]) -> None:
    with sluice.Writer("camera", shape=(480, 640, 3), dtype="uint8", policy="wait", wait=0.5) as writer:
        with writer.frame(timeout=1, meta=b"meta") as frame:
            frame.numpy()[:] = image
            frame["data"].numpy()[:] = image
            frame.meta = b"later"
        assert_type(writer.send(image), int)
        assert_type(writer.try_frame(), sluice.WriterFrame | None)
        writer.send({"a": image, "b": bytes(4)})
        writer.stats().committed
        writer.frame("1")  # type: ignore[arg-type]
        writer.send(3)  # type: ignore[arg-type]
        writer.nonsense()  # type: ignore[attr-defined]
    sluice.Writer.like("l", image, slots=5).close()
    sluice.Writer("i", {"view": sluice.Image("bgr24", 640, 480), "boxes": sluice.Tensor((10, 4), numpy.float32),
                        "k": ((3, 3), "float64")})
    sluice.Writer("x", policy="never")  # type: ignore[call-overload,arg-type,unused-ignore]


def cuda_links(name: str) -> None:
    with sluice.Reader(name, cipd={"undeclared": "bgra", "copy": True, "stall_ns": -1}) as reader:
        assert_type(reader.cipd_info().slots[0].last_wait_ns, int)
    with sluice.Writer(name, shape=3, cipd={"block": True, "barrier_name": None}) as writer:
        assert_type(writer.cipd_info(), sluice.CipdInfo)
    sluice.Reader(name, cipd={"undeclared": "argb"})  # type: ignore[arg-type,typeddict-item,unused-ignore]
    sluice.Reader(name, cipd={"block": True})  # type: ignore[arg-type,typeddict-unknown-key,unused-ignore]
    sluice.cipd_look(name).index = 3  # type: ignore[misc]


def look() -> None:
    assert_type(sluice.info("camera", timeout=2).readers[0].held, int)
    for event in sluice.watch(timeout=1):
        assert_type(event.live, bool)
    sluice.Image("bgr", 640, 480)  # type: ignore[arg-type]
    with sluice.Recording("take.slr", damaged=True) as recording:
        assert_type(recording[0], sluice.RecordedFrame)
        assert_type(recording[1:], list[sluice.RecordedFrame])
        assert_type(recording.at(1.5)["depth"], sluice.RecordedArray)
        recording["depth"]  # type: ignore[call-overload]


def describe(writer: sluice.Writer, frame: sluice.Frame) -> None:
    with writer.frame(meta={"pose": [1, 2]}) as begun:
        begun.meta = "text"
    writer.send(bytes(4), meta="text")
    writer.send(bytes(4), meta=3)  # type: ignore[arg-type]
    for name, array in frame.items():
        assert_type(name, str)
        assert_type(array.pixel_format == "bgr24", bool)


def read() -> int:
    total = 0
    with sluice.Reader("camera", mode="in_order", wait=None, ahead=True, ahead_timeout=0.5) as reader:
        for frame in reader:
            assert_type(frame, sluice.Frame)
            assert_type(frame.sequence, int)
            assert_type(frame.meta, bytes)
            assert_type(frame.view(), Any)
            total += int(frame.numpy(pixel_format="bgr24").sum()) + len(frame.planes)
            frame.sequence = 3  # type: ignore[misc]
        assert_type(reader.latest(), sluice.Frame | None)
        try:
            reader.next(timeout=0.1)
        except sluice.Timeout as error:
            total += error.result
    return total


async def read_async() -> None:
    async with sluice.Reader("camera") as reader:
        async for frame in reader:
            assert_type(frame, sluice.Frame)
        assert_type(await reader.next_async(timeout=1), sluice.Frame)


def as_arrays(frame: sluice.Frame) -> None:
    numpy.from_dlpack(frame)
    numpy.asarray(frame)
    memoryview(frame["depth"])


def streams(foreign: object) -> None:
    with sluice.Stream("cuda:0", priority=-1) as stream, sluice.Event(timing=True) as event:
        assert_type(stream, sluice.Stream)
        event.record()
        event.record(stream)
        assert_type(stream.record(), sluice.Event)
        stream.wait(event)
        stream.wait(sluice.Stream.default())
        assert_type(event.elapsed(event), float)
        assert_type(stream.query(), bool)
        assert_type(stream.__cuda_stream__(), tuple[int, int])
    with sluice.Stream.from_handle(1, "cuda:1", owner=foreign).use() as used:
        assert_type(used, sluice.Stream)
    assert_type(sluice.current_stream("host"), sluice.Stream | None)
    sluice.Stream.wrap(stream, device="cuda:0").close()
    assert_type(sluice.Stream(sync_on_exit=False).same_native(stream), bool)
    stream.same_native(3)  # type: ignore[arg-type]
    stream.wait(3)  # type: ignore[arg-type]
    stream.native = 3  # type: ignore[misc]
    sluice.reset("cuda:0")
    sluice.synchronize("cuda:0")


def kernels(frame: sluice.Frame, stream: sluice.Stream) -> None:
    with sluice.Kernels("fx.cu", "cuda:0", options=["-DR=3"], kernels=["scale<float>"]) as fx:
        assert_type(fx.blur, sluice.Kernel)
        assert_type(fx["scale<float>"].parameters, tuple[str, ...] | None)
        fx.blur(frame, numpy.zeros(4), 1.5, b"struct", over=frame, stream=stream)
        fx.blur.on(stream)(frame, over=(640, 480), block=(32, 8), shared=64)
        fx.blur(frame, over="all")  # type: ignore[arg-type]
        assert_type(list(fx), list[str])
        with sluice.capture(stream) as graph:
            fx.blur(frame, grid=1)
        assert_type(graph, sluice.Graph)
        with graph.again():
            fx.blur(frame, grid=2)
        graph.launch(stream)
        assert_type(graph.updates, int)
    try:
        sluice.Kernels(b"ptx", options="-DR=3", cache=False)
    except sluice.CompileError as error:
        assert_type(error.log, str)
    sluice.Kernels(3)  # type: ignore[arg-type]


def conversions(frame: sluice.Frame, stream: sluice.Stream) -> None:
    area = sluice.convert(numpy.zeros((3, 4, 4)), frame, crop=(0, 0, 8, 8), fit="inside", filter="linear", flip="both", border=(0, 0.5, 1),
                          scale=2, bias=[-1, -1, -1], layout="CHW", order="BGR", chroma="centre", stream=stream)
    assert_type(area, sluice.Area)
    assert_type(area.per_x, float)
    area.back(1, numpy.zeros(2))
    sluice.convert(frame, frame, fit="fill")  # type: ignore[arg-type]


async def copies(frame: sluice.Frame, writer: sluice.Writer, stream: sluice.Stream) -> None:
    (await frame.fetch("depth")).mean()
    array = numpy.zeros(4)
    frame.copy_to(array)
    frame.copy_to({"depth": array}, stream=stream)
    frame.copy_to(bytearray(4), "depth")
    assert_type(writer.send(array, stream=stream), int)


def link() -> int:
    import sluice.cuda_link as cuda_link

    with cuda_link.Exporter.open(cuda_link.FrameSpec("x", 4, 4), policy=cuda_link.ExportPolicy.low_latency()) as exporter:
        assert_type(exporter.export(cuda_link.GpuFrame(1, 64, producer_stream=0)), cuda_link.FrameOutcome)
        exporter.export(1)  # type: ignore[arg-type]
    with cuda_link.Importer.open(cuda_link.ImportSpec("x", shape=(4, 4, 4))) as importer:
        result = importer.get_frame_numpy()
        assert_type(result, cuda_link.ImportResult[Any])
        assert_type(result.outcome, cuda_link.ImportOutcome)
        assert_type(importer.last_latency, float)
        assert_type(importer.get_stats(), dict[str, Any])
        importer.get_frame(colour=1)  # type: ignore[call-arg]
    cuda_link.install()
    return importer.frame_count
