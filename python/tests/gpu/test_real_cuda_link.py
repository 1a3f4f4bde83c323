# SPDX-License-Identifier: MIT
"""sluice.cuda_link with PyTorch and CuPy on a GPU; the other side is another process, of Sluice's, or, if
SLUICE_CUDA_LINK names the folder of its package, of cuda-link itself."""
import os
import threading
import time

import needs
import numpy as np
import peer_runtime
import pytest
from cuda_link_kit import a_link
from eventually import SECONDS

import sluice.cuda_link as cuda_link
from sluice.cuda_link import ImportOutcome

torch = needs.torch
SHAPE = (64, 96, 4)
KINDS = ["ours", "theirs"]


@pytest.fixture
def link():
    with a_link() as link:
        yield link


@pytest.fixture
def kinds(tmp_path, monkeypatch):
    """Of a role: by which package it is. Skipped by name where cuda-link's is not there, or no CUDA runtime of its kind."""
    def kind_of(kind, role):
        if kind == "ours":
            return role
        folder = peer_runtime.package_folder()
        if not folder:
            pytest.skip("SLUICE_CUDA_LINK names no folder of cuda-link's package")
        if peer_runtime.is_of_classes(folder):
            pytest.skip("this cuda-link has no Exporter and no Importer: tests/upstream is for it")
        if not (tmp_path / peer_runtime.NAME).exists():
            if not peer_runtime.with_its_name(folder, tmp_path):
                pytest.skip("there is no CUDA runtime 12, which cuda-link loads")
            monkeypatch.setenv("LD_LIBRARY_PATH", peer_runtime.search_path(tmp_path))
        return f"theirs:{role}"

    return kind_of


def until(method, outcome=ImportOutcome.NEW_FRAME, **keywords):
    end = time.monotonic() + SECONDS
    while True:
        result = method(**keywords)
        if result.outcome is outcome:
            return result.frame
        assert time.monotonic() < end, result
        time.sleep(0.0005)


def until_there(method):
    end = time.monotonic() + SECONDS
    while (frame := method()) is None:
        assert time.monotonic() < end
        time.sleep(0.0005)
    return frame


def is_full(array, value):
    assert bool((array == value).all()), array


def importer(link, **policy):
    return cuda_link.Importer.open(cuda_link.ImportSpec(link.name), policy=cuda_link.ImportPolicy(**policy))


def exporter_of(link, dtype=None, **spec):
    return cuda_link.Exporter.open(cuda_link.FrameSpec(link.name, *SHAPE, **({"dtype": dtype} if dtype else {}), **spec))


def frame_of(tensor, stream=None):
    stream = torch.cuda.current_stream().cuda_stream if stream is None else stream
    return cuda_link.GpuFrame(tensor.data_ptr(), tensor.nbytes, stream)


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_of_pytorch(link, kind, kinds):
    exporter = link.exporter(*SHAPE, kind=kinds(kind, "export"))
    with importer(link) as imports:
        seen = []
        for value in range(1, 8):
            exporter.export(value)
            frame = until(imports.get_frame)
            assert isinstance(frame, torch.Tensor) and frame.is_cuda and tuple(frame.shape) == SHAPE
            is_full(frame, value)
            seen.append((frame.data_ptr(), id(frame)))
        assert len(set(seen)) == 3 and seen[3:6] == seen[:3]
        exporter.export(9)
        frame = until(imports.get_frame, stream=torch.cuda.Stream())
        torch.cuda.synchronize()
        is_full(frame, 9)
        frame += 1  # as programs of cuda-link's do: the context lives
        is_full(frame, 10)
        exporter.close()
        until(imports.get_frame, ImportOutcome.SHUTDOWN)
        exporter = link.exporter(8, 8, 1, kind=kinds(kind, "export"), dtype="float32")
        exporter.export(0)
        frame = until(imports.get_frame)
        assert tuple(frame.shape) == (8, 8, 1) and frame.dtype is torch.float32
        is_full(frame, 0)


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16"])
def test_the_tensors_inside_are_the_slots(link, cupy, dtype):
    """By the class of cuda-link 1.1, whose programs look at the slots themselves."""
    exporter = link.exporter(*SHAPE, dtype=dtype)
    exporter.export(0)
    with cuda_link.CUDAIPCImporter(link.name) as imports:
        frame = until_there(imports.get_frame)
        tensors = imports.tensors
        assert [each.data_ptr() for each in tensors] == [each.value for each in imports.dev_ptrs]
        assert all(each.dtype is frame.dtype and tuple(each.shape) == SHAPE and each.is_cuda for each in tensors)
        assert frame.data_ptr() == tensors[0].data_ptr()
        is_full(tensors[0], 0)
        if dtype == "uint8":
            assert [each.data.ptr for each in imports.cupy_arrays] == [each.value for each in imports.dev_ptrs]
            is_full(imports.cupy_arrays[0], 0)


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_cupy_and_numpy(link, cupy, kind, kinds):
    exporter = link.exporter(*SHAPE, kind=kinds(kind, "export"))
    with importer(link) as imports:
        for value in range(1, 6):
            exporter.export(value)
            with cupy.cuda.Stream(non_blocking=True):
                array = until(imports.get_frame_cupy)
                assert isinstance(array, cupy.ndarray) and array.shape == SHAPE
                is_full(array, value)
            exporter.export(value + 100)
            array = until(imports.get_frame_numpy)
            assert isinstance(array, np.ndarray) and array.dtype == np.uint8
            is_full(array, value + 100)
        exporter.kill()
        exporter = link.exporter(4, 4, 2, kind=kinds(kind, "export"), slots=2)
        exporter.export(7)
        array = until(imports.get_frame_cupy)  # made anew, with the new shape
        assert array.shape == (4, 4, 2)
        is_full(array, 7)


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_go_out(link, kind, kinds):
    with exporter_of(link) as exporter:
        tensor = torch.zeros(SHAPE, dtype=torch.uint8, device="cuda")
        imports = link.importer(kind=kinds(kind, "import"))
        for value in range(1, 6):
            torch.cuda._sleep(1_000_000)
            tensor.fill_(value)
            assert exporter.export(frame_of(tensor)) is cuda_link.FrameOutcome.PUBLISHED
            tensor.fill_(77)  # at once: it runs after the copy
            told = imports.until("numpy")
            assert told["value"] == value and told["whole"], told
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda._sleep(1_000_000)
            tensor.fill_(9)
            assert exporter.export(cuda_link.GpuFrame(tensor.data_ptr(), tensor.nbytes)) is cuda_link.FrameOutcome.PUBLISHED
        assert imports.until("numpy")["value"] == 9  # no stream is named: it is PyTorch's current one


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "uint8", "uint16", "int8", "int16"])
def test_data_types(link, dtype):
    kind = getattr(torch, dtype, None)
    if kind is None:
        pytest.skip(f"this PyTorch has no {dtype}")
    exporter = link.exporter(4, 4, 2, dtype=dtype)
    exporter.export(0)
    with importer(link) as imports:
        frame = until(imports.get_frame)
        assert frame.dtype is kind and int(frame.view(torch.uint8).sum()) == 0


def test_pipelined_copies_are_of_the_frame_before(link):
    exporter = link.exporter(*SHAPE)
    with importer(link, d2h_pipelined=True) as imports:
        exporter.export(1)
        while not imports.frame_count:
            assert imports.get_frame_numpy().frame is None
        for value in range(2, 20):
            exporter.export(value)
            is_full(until(imports.get_frame_numpy), value - 1)


def test_captures_of_another_thread_stay_whole(link):
    """PyTorch captures and replays all the while; frames come and go."""
    exporter = link.exporter(*SHAPE)
    own = cuda_link.Exporter.open(cuda_link.FrameSpec(link.name + "-2", *SHAPE))
    stop, made = threading.Event(), []

    def capture():
        memory = torch.zeros(1024, device="cuda")
        while not stop.is_set():
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="global"):
                memory += 1
            before = float(memory[0])
            graph.replay()
            torch.cuda.current_stream().synchronize()
            made.append(float(memory[0]) == before + 1)

    thread = threading.Thread(target=capture)
    with importer(link) as imports, own:
        source = cuda_link.get_cuda_runtime().malloc(own.data_size)
        thread.start()
        try:
            for value in range(1, 40):
                exporter.export(value)
                stream = sluice_stream()
                frame = until(imports.get_frame, stream=stream.native)
                assert frame.data_ptr()
                own.export(cuda_link.GpuFrame(source.value, own.data_size, stream.native))
                exporter.export(value + 100)
                is_full(until(imports.get_frame_numpy), value + 100)
        finally:
            stop.set()
            thread.join()
    assert made and all(made)


def sluice_stream():
    import sluice
    return sluice.Stream("cuda:0")


def test_frames_are_whole_at_full_speed(link):
    """A producer that never waits; each frame is of one value."""
    exporter = link.exporter(1080, 1920, 4, slots=3)
    exporter.child.write("flood 120 0.0003")
    count, end = 0, time.monotonic() + 4
    with importer(link) as imports:
        while time.monotonic() < end or count <= 20:
            result = imports.get_frame_numpy()
            if result.outcome is ImportOutcome.NEW_FRAME:
                assert (result.frame == result.frame.flat[0]).all()
                count += 1
    exporter.kill()


def test_an_unedited_program_with_pytorch(link, tmp_path):
    """The calls of cuda-link's own introduction."""
    import subprocess
    import sys
    (tmp_path / "program.py").write_text(f"""
import torch
from cuda_link import Exporter, FrameSpec, GpuFrame, ImportOutcome, Importer, ImportSpec
import multiprocessing, time

def produce(name):
    output = torch.zeros((512, 512, 4), dtype=torch.uint8, device="cuda")
    with Exporter.open(FrameSpec(shm_name=name, height=512, width=512, channels=4, dtype="uint8", num_slots=2)) as exporter:
        for number in range(200):
            output.fill_(number)
            exporter.export(GpuFrame(ptr=output.data_ptr(), size=output.nbytes,
                                     producer_stream=torch.cuda.current_stream().cuda_stream))
            time.sleep(0.02)

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=produce, args=({link.name!r},))
    process.start()
    seen = []
    with Importer.open(ImportSpec(shm_name={link.name!r}, shape=(512, 512, 4), dtype="uint8", timeout_ms=5000.0)) as importer:
        while not seen or importer.get_frame().outcome is not ImportOutcome.SHUTDOWN:
            result = importer.get_frame()
            if result.outcome is ImportOutcome.NEW_FRAME:
                seen.append(int(result.frame.max()))
            elif result.outcome is ImportOutcome.SHUTDOWN:
                break
    process.join()
    print(len(seen) > 3, seen == sorted(seen))
""")
    done = subprocess.run([sys.executable, "-m", "sluice.cuda_link", str(tmp_path / "program.py")], capture_output=True, text=True,
                          timeout=500)
    assert done.returncode == 0 and done.stdout.split() == ["True", "True"], done.stdout + done.stderr
