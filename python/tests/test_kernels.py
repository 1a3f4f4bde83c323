# SPDX-License-Identifier: MIT
"""Kernels: how they are loaded, called and refused. What is refused runs nothing: each launch counts."""
import ctypes
import pathlib
import struct
import threading

import numpy
import pytest

import sluice
from gpu_arrays import Memory
from kernel_kit import SOURCE, kernels, on  # noqa: F401
from stream_kit import device  # noqa: F401


class Point(ctypes.Structure):
    _fields_ = [("x", ctypes.c_float), ("y", ctypes.c_float)]


# ---- loading ----

def test_a_text_a_path_and_bytes(device, tmp_path):
    path = tmp_path / "fx.cu"
    path.write_text(SOURCE)
    for given in (SOURCE, path, str(path), SOURCE.encode()):
        fx = sluice.Kernels(given, device=device)
        assert fx.device == device and {"scale", "values", "twice"} <= set(fx) and len(fx) == len(list(fx))
        assert fx["scale"] is fx.scale and "scale" in dir(fx) and "scale" in repr(fx)
        assert repr(fx).startswith("<sluice.Kernels: fx.cu on" if given in (path, str(path)) else "<sluice.Kernels: kernels on")
        fx.close()
    with pytest.raises(FileNotFoundError):
        sluice.Kernels(tmp_path / "none.cu", device=device)
    with pytest.raises(sluice.InvalidError, match="is empty"):
        sluice.Kernels(b"", device=device)


def test_what_a_kernel_is(kernels):
    scale = kernels.scale
    assert scale.name == "scale" and scale.device == kernels.device
    assert scale.parameters == ("float *", "const float *", "float", "int")
    assert repr(scale) == f"<sluice.Kernel: scale(float *, const float *, float, int) on {kernels.device}>"
    assert scale.most_threads >= 1024 > scale.registers and scale.shared == 0 and scale.local >= 0
    assert kernels.values.parameters == ("double *", "unsigned char", "long long", "unsigned long long", "bool", "struct of 8 bytes",
                                         "float")
    with pytest.raises(AttributeError, match="has no kernel 'blur'; it has 'scale'"):
        kernels.blur
    with pytest.raises(KeyError, match="has no kernel 'blur'"):
        kernels["blur"]
    with pytest.raises(TypeError):
        type(scale)()


def test_templates_are_named(device):
    source = "template <class T> __global__ void add(T *x, T by)\n{\n    x[threadIdx.x] += by;\n}\n"
    fx = sluice.Kernels(source, device=device, kernels=["add<float>", "add<int>"])
    numbers, whole = numpy.zeros(4, "float32"), numpy.zeros(4, "int32")
    fx["add<float>"](numbers, 0.5, grid=1, block=4)
    fx["add<int>"](whole, 3, grid=1, block=4)
    assert numbers.tolist() == [0.5] * 4 and whole.tolist() == [3] * 4
    with pytest.raises(TypeError, match="must be a list"):
        sluice.Kernels(source, device=device, kernels="add<int>")


def test_options_and_the_log(device):
    source = "__global__ void f(int *x)\n{\n    int unused = BY;\n    x[0] += BY;\n}\n"
    total = numpy.zeros(1, "int32")
    fx = sluice.Kernels(source, device=device, options=["-DBY=7"], name="by.cu", cache=False)
    fx.f(total, grid=1, block=1)
    assert total[0] == 7 and isinstance(fx.log, str)


def test_a_source_with_an_error(device):
    with pytest.raises(sluice.CompileError) as caught:
        sluice.Kernels("__global__ void f(int *x)\n{ x[0] = gain; }\n", device=device, name="fx.cu")
    assert str(caught.value).startswith("fx.cu(2): error") and "gain" in caught.value.log
    assert caught.value.result == -27 and sluice.CompileError.log == ""


def test_the_end(device):
    with sluice.Kernels(SOURCE, device=device) as fx:
        scale = fx.scale
    out = numpy.zeros(1, "float32")
    with pytest.raises(sluice.ClosedError):
        scale(out, out, 1, 1, over=1)
    fx.close()
    kept = sluice.Kernels(SOURCE, device=device).scale  # the kernel keeps its module
    kept(out, numpy.ones(1, "float32"), 3, 1, over=1)
    assert out[0] == 3


def test_without_a_device_a_gpu_or_the_host():
    fx = sluice.Kernels(SOURCE)
    assert fx.device in ("host", "cuda:0")


# ---- arguments ----

def test_numbers_are_converted(kernels):
    out = numpy.zeros(6)
    kernels.values(out, 255, -5, 2 ** 64 - 1, True, Point(1, 2), 1, over=1)
    assert out.tolist() == [255, -5, 2.0 ** 64, 1, 3, 1]
    kernels.values(out, numpy.uint8(3), numpy.int8(-5), numpy.uint64(2 ** 63), numpy.bool_(False), bytes(Point(2, 2)), numpy.float64(2.5),
                   over=1)
    assert out.tolist() == [3, -5, 2.0 ** 63, 0, 4, 2.5]
    record = numpy.zeros(1, [("x", "f4"), ("y", "f4")])
    record["y"] = 9
    kernels.values(out, numpy.int64(7), numpy.int32(1), ctypes.c_uint16(2), 0, record[0], ctypes.c_double(0.5), over=1)
    assert out.tolist() == [7, 1, 2, 0, 9, 0.5]


def test_an_address(gpu):
    fx = on(gpu.device)
    memory = Memory(gpu, 16)
    gpu.fill(memory.address, 0, 16, 0)
    gpu.synchronize(0)
    fx.where(ctypes.c_void_p(memory.address), over=3)
    sluice.synchronize(gpu.device)
    assert gpu.read(memory.address, 16) == struct.pack("4i", 1, 1, 1, 0)
    memory.free()


def test_an_address_on_the_host():
    seen = numpy.zeros(16, "int32")
    on("host").where(ctypes.c_void_p(seen.ctypes.data), over=2)
    assert seen.tolist() == [1, 1] + [0] * 14
    with pytest.raises(sluice.FormatError, match="parameter 2"):
        on("host").counted(seen, ctypes.c_void_p(seen.ctypes.data), 2, bytes(8), None, over=1)


@pytest.mark.parametrize(("arguments", "error", "words"), [
    ((1, 2), TypeError, r"takes 5 arguments \(.*\); 3 were passed"),
    ((1, 2, bytes(8), None, 1), TypeError, "takes 5 arguments"),
    ((1.5, 2, bytes(8), None), TypeError, "parameter 2 is an int; a floating-point number was passed"),
    ((numpy.float32(1), 2, bytes(8), None), TypeError, "parameter 2 is an int; a floating-point number was passed"),
    ((2 ** 31, 2, bytes(8), None), OverflowError, "parameter 2 is 'int', which does not hold 2147483648"),
    ((10 ** 30, 2, bytes(8), None), OverflowError, "parameter 2"),
    ((1, 300, bytes(8), None), OverflowError, "parameter 3 is 'unsigned char'"),
    ((1, -1, bytes(8), None), OverflowError, "parameter 3 is 'unsigned char'"),
    (("1", 2, bytes(8), None), TypeError, "parameter 2: the kernel takes a number"),
    ((None, 2, bytes(8), None), TypeError, "parameter 2: the kernel takes a number"),
    ((1, 2, bytes(7), None), TypeError, "parameter 4 has 8 bytes; a value of 7 was passed"),
    ((1, 2, 3, None), TypeError, "parameter 4 is a struct"),
    ((1, 2, "point", None), TypeError, "parameter 4: .* is not a struct"),
    ((1, 2, bytes(8), 7), TypeError, r"parameter 5 is a const float \*; an integer was passed"),
    ((1, 2, bytes(8), numpy.zeros(4)), TypeError, r"parameter 5 is 'const float \*'; a host array of float64 was passed"),
    ((1, 2, bytes(8), numpy.zeros(8, "f4")[::2]), ValueError, "parameter 5: the array is not contiguous"),
    ((1, 2, bytes(8), numpy.zeros((4, 4), "f4").T), ValueError, "parameter 5: the array is not contiguous"),
    ((1, 2, bytes(8), {}), TypeError, "parameter 5: .* is not an array"),
])
def test_what_does_not_fit_runs_nothing(kernels, arguments, error, words):
    counts = numpy.zeros(1, "int32")
    good = (1, 2, bytes(8), numpy.zeros(4, "f4"))
    full = [good[3] if each is None and place == 3 else each for place, each in enumerate(arguments)]
    with pytest.raises(error, match=words):
        kernels.counted(counts, *full, over=1)
    assert counts[0] == 0
    kernels.counted(counts, *good, over=1)
    assert counts[0] == 1


@pytest.mark.parametrize(("how", "error", "words"), [
    ({}, TypeError, "give either over="),
    ({"over": 1, "grid": 1}, TypeError, "not both"),
    ({"over": 0}, ValueError, "each number must be 1"),
    ({"over": -1}, ValueError, "each number must be 1"),
    ({"over": ()}, ValueError, "one to three numbers"),
    ({"over": (1, 2, 3, 4)}, ValueError, "one to three numbers"),
    ({"over": "all"}, TypeError, "it must be a number of threads"),
    ({"over": numpy.zeros((2, 3, 5))}, ValueError, "whose size is ambiguous"),
    ({"over": numpy.zeros(0)}, ValueError, "extent 0"),
    ({"over": 1, "block": 4096}, sluice.LimitError, "a block of 4096"),
    ({"over": 1, "shared": 1 << 30}, sluice.LimitError, "shared memory"),
    ({"over": 1, "shared": -1}, ValueError, "negative"),
    ({"over": 1, "gird": 1}, TypeError, "unexpected argument 'gird'"),
    ({"over": 1, "stream": 3}, TypeError, "is no stream"),
])
def test_shapes_that_do_not_fit_run_nothing(kernels, how, error, words):
    counts = numpy.zeros(1, "int32")
    with pytest.raises(error, match=words):
        kernels.counted(counts, 1, 2, bytes(8), numpy.zeros(4, "f4"), **how)
    assert counts[0] == 0


@pytest.mark.parametrize(("over", "size"), [
    (5, (5, 1, 1)), (numpy.int16(5), (5, 1, 1)), ((7, 5), (7, 5, 1)), ([7, 5, 3], (7, 5, 3)),
    (numpy.zeros(9), (9, 1, 1)), (numpy.zeros((4, 6)), (6, 4, 1)), (numpy.zeros((4, 6, 3)), (6, 4, 1)),
])
def test_over(kernels, over, size):
    seen = numpy.zeros(512, "int32")
    kernels.where(seen, over=over, block=(1, 1, 1))
    x, y, z = size
    assert seen.sum() == x * y * z and seen[(x - 1) + 16 * (y - 1) + 128 * (z - 1)] == 1


def test_grid_block_and_shared(kernels):
    seen = numpy.zeros(512, "int32")
    kernels.where(seen, grid=2, block=[3, 2], shared=16)
    assert seen.sum() == 12


def test_read_only_memory(kernels):
    out, frozen = numpy.zeros(4, "float32"), numpy.ones(4, "float32")
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match=r"parameter 1 is 'float \*', which it may write; read-only memory"):
        kernels.scale(frozen, out, 2, 4, over=4)
    assert frozen.tolist() == [1] * 4
    kernels.scale(out, frozen, 2, 4, over=4)
    kernels.scale(out, memoryview(bytes(out)).cast("f"), 2, 4, over=4)
    assert out.tolist() == [4] * 4


def test_an_array_of_structs(kernels):
    points = numpy.zeros(3, [("x", "f4"), ("y", "f4")])
    kernels.twice(points, 3, over=points)
    points["x"] = 2
    kernels.twice(points, 3, over=points)
    assert points["x"].tolist() == [4] * 3


# ---- frames ----

def test_frames(device):
    fx = sluice.Kernels(SOURCE, device=device)
    with sluice.Writer("in", shape=(4, 6), dtype="float32", device=device) as writer, sluice.Reader("in") as reader, \
            sluice.Writer("out", {"a": ((4, 6), "float32"), "b": ((2,), "int32")}, device=device) as results, \
            sluice.Reader("out") as found, sluice.Stream(device) as stream:
        writer.send(numpy.arange(24, dtype="float32").reshape(4, 6))
        with reader.next(timeout=60) as frame:
            with pytest.raises(ValueError, match="the frame of channel 'in' is read-only"):
                fx.scale(frame, frame, 1, 24, over=24)
            with results.frame() as out:
                fx.scale(out, frame, 2, 24, over=24)
                fx.scale(out["a"], frame[0], 2, 24, over=24, stream=stream)
                with pytest.raises(TypeError, match="an array of int32 was passed|a frame of int32 was passed"):
                    fx.scale(out["b"], frame, 2, 24, over=frame)
                with pytest.raises(sluice.LimitError, match="16"):
                    fx.scale(*[frame] * 17, over=1)
        with pytest.raises(sluice.StaleError):
            fx.scale(frame, frame, 1, 24, over=24)
        with found.next(timeout=60) as frame:
            assert frame["a"].copy().reshape(-1).tolist() == [2.0 * i for i in range(24)]


def test_over_a_frame(device):
    fx = sluice.Kernels(SOURCE, device=device)
    seen = numpy.zeros(512, "int32")
    with sluice.Writer("i", {"view": sluice.Image("bgr24", 8, 6)}, device=device) as writer, writer.frame() as frame:
        for over in (frame, frame["view"], frame.planes[0]):
            seen[:] = 0
            fx.where(seen, over=over, block=1)
            assert seen.sum() == 48 and seen[7 + 16 * 5] == 1
    with sluice.Writer("t", shape=5, device=device) as writer, writer.frame() as frame:
        seen[:] = 0
        fx.where(seen, over=frame, block=1)
        assert seen.sum() == 5


# ---- streams and threads ----

def test_a_bound_stream(device):
    fx = sluice.Kernels(SOURCE, device=device)
    out = numpy.zeros(1, "float32")
    stream = sluice.Stream(device)
    bound = fx.scale.on(stream)
    bound(out, numpy.ones(1, "float32"), 5, 1, over=1)
    assert out[0] == 5 and bound.name == "scale"
    stream.close()
    with pytest.raises(sluice.StreamClosedError):
        bound(out, numpy.ones(1, "float32"), 6, 1, over=1)
    assert out[0] == 5
    with pytest.raises(TypeError, match="is no stream"):
        fx.scale.on(3)


def test_a_stream_of_another_device(gpu):
    for device, other in (("host", gpu.device), (gpu.device, "host")):
        fx = sluice.Kernels(SOURCE, device=device)
        counts = numpy.zeros(1, "int32")
        with pytest.raises(sluice.WrongDeviceError):
            fx.counted(counts, 1, 2, bytes(8), numpy.zeros(4, "f4"), over=1, stream=sluice.Stream(other))
        assert counts[0] == 0


def test_eight_threads(device):
    fx = sluice.Kernels(SOURCE, device=device)
    wrong = []

    def work(number):
        out, one = numpy.zeros(1, "float32"), numpy.ones(1, "float32")
        with sluice.Stream(device):
            for i in range(1000):
                fx.scale(out, one, number * 1000 + i, 1, over=1)
                if out[0] != number * 1000 + i:
                    wrong.append((number, i, out[0]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []


def test_threads_run_while_it_compiles(device):
    """One that the compiler cannot finish before another thread has run: it reads a fifo that this thread writes."""
    if device != "host":
        pytest.skip("NVRTC reads no fifo of the test's")
    import os
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        fifo = pathlib.Path(folder) / "late.h"
        os.mkfifo(fifo)
        loaded = []
        thread = threading.Thread(target=lambda: loaded.append(sluice.Kernels(
            '#include "late.h"\n__global__ void f(int *x) { x[0] = LATE; }\n', device="host", options=[f"-I{folder}"], cache=False)))
        thread.start()
        fifo.write_text("#define LATE 4\n")  # waits until the compiler reads it
        thread.join()
    x = numpy.zeros(1, "int32")
    loaded[0].f(x, over=1)
    assert x[0] == 4
