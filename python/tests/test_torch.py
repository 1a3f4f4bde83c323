# SPDX-License-Identifier: MIT
"""PyTorch: tensors in slots, and a DataLoader whose workers read a channel."""
import pathlib
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import recipes
import sluice
from eventually import STARTS, wait_until

torch = pytest.importorskip("torch", reason="torch is not installed")
HERE = __file__.rpartition("/")[0]
FORKS = {"PYTHONWARNINGS": "ignore::DeprecationWarning"}
HAS_BOOL = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 0)  # in DLPack


def test_a_tensor_goes_and_comes_in_place():
    values = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    with sluice.Writer("t", shape=(4, 6), dtype=torch.float32) as writer, sluice.Reader("t") as reader:
        writer.send(values)
        frame = reader.next()
        tensor = frame.torch()
        assert torch.equal(tensor, values) and tensor.data_ptr() == frame[0].address
        assert torch.equal(torch.from_dlpack(frame), values)
        assert torch.equal(frame["data"].torch(), values)
        frame.release()
        assert reader.stats().held == 1
        del tensor
        assert reader.stats().held == 0


def test_a_tensor_is_the_slot_that_is_written():
    with sluice.Writer("t", shape=(4, 6), dtype="float32") as writer, sluice.Reader("t") as reader:
        with writer.frame() as frame:
            frame.torch().fill_(3)
            torch.from_dlpack(frame)[2] = 4
        assert reader.next().numpy()[:3, 0].tolist() == [3, 3, 4]


def test_tensors_of_any_strides():
    values = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    with sluice.Writer.like("t", values, resize=True) as writer, sluice.Reader("t") as reader:
        assert writer.format == {"data": sluice.Tensor((4, 6), "float32")}
        for source in (values.T.contiguous().T, values.flip(0), values[:, :1].expand(4, 6), values[1:2, ::2].expand(4, 3)):
            writer.send(source)
            with reader.next(timeout=60) as frame:
                assert torch.equal(frame.torch(), source)
        writer.send({"data": values})
        assert torch.equal(reader.next(timeout=60).torch(), values)


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16",
                                  "complex64", "complex128", *(["bool"] if HAS_BOOL else [])])
def test_every_data_type(name):
    dtype = getattr(torch, name)
    with sluice.Writer("t", shape=(4,), dtype=dtype) as writer, sluice.Reader("t") as reader:
        writer.send(torch.ones(4, dtype=dtype))
        frame = reader.next()
        assert frame.dtype == name and frame.torch().dtype == dtype
        assert torch.equal(frame.torch(), torch.ones(4, dtype=dtype))


def test_a_tensor_that_requires_a_gradient_is_sent_as_it_is():
    with sluice.Writer("t", shape=4, dtype="float32") as writer, sluice.Reader("t") as reader:
        tensor = torch.full((4,), 3.0, requires_grad=True)
        writer.send(tensor)
        assert reader.next().numpy().tolist() == [3] * 4 and tensor.requires_grad


def test_elements_that_are_yet_to_be_conjugated_or_negated_are():
    value = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64)
    with sluice.Writer("t", shape=2, dtype="complex64") as writer, sluice.Reader("t") as reader:
        writer.send(value.conj())
        assert reader.next().numpy().tolist() == [1 - 2j, 3 + 4j]
    with sluice.Writer("t", shape=2, dtype="float32") as writer, sluice.Reader("t") as reader:
        writer.send(value.conj().imag)
        assert reader.next().numpy().tolist() == [-2, 4]
        array = np.zeros(2, "float32")
        target = torch.from_numpy(array)
        reader.latest()
        writer.send(value.imag.contiguous())
        reader.next().copy_to(target)
        assert array.tolist() == [2, -4]


# ---- DataLoader ----

class Frames(torch.utils.data.IterableDataset):
    """As in docs/python-multiprocessing.md: each worker opens the channel for itself."""

    def __init__(self, channel, count):
        self.channel = channel
        self.count = count

    def __iter__(self):
        with sluice.Reader(self.channel, mode="in_order", wait=60) as reader:
            for _, frame in zip(range(self.count), reader):
                yield frame.copy()


def write(readers, count):
    """Frames of their own number, once so many readers are there."""
    with sluice.Writer("training", shape=(3, 8, 8), dtype="float32", policy="wait", wait=60) as writer:
        wait_until(lambda: writer.stats().readers >= readers, STARTS)
        for number in range(count):
            writer.send(np.full((3, 8, 8), number, "f4"))


def test_workers_by_spawn_read_beside_a_writer():
    """Every worker gets every frame, also where this process has the channel open itself."""
    thread = threading.Thread(target=write, args=(2, 8))
    thread.start()
    loader = torch.utils.data.DataLoader(Frames("training", 8), batch_size=4, num_workers=2,
                                         multiprocessing_context="spawn")
    batches = list(loader)
    thread.join()
    assert all(batch.shape == (4, 3, 8, 8) and batch.dtype == torch.float32 for batch in batches)
    assert sorted(int(each) for batch in batches for each in batch[:, 0, 0, 0]) == sorted([*range(8)] * 2)


def test_workers_by_fork_read_where_nothing_was_open_before(run, start):
    writer = start("write_training", 2, 8)
    writer.expect("open")
    out = run("""
import sys
sys.path.insert(0, %r)
import torch
from test_torch import Frames
loader = torch.utils.data.DataLoader(Frames("training", 8), batch_size=4, num_workers=2, multiprocessing_context="fork")
print(sorted(int(each) for batch in loader for each in batch[:, 0, 0, 0]))
""" % HERE, env=FORKS)
    assert out == f"{sorted([*range(8)] * 2)}\n"


def test_workers_by_fork_are_told_where_a_channel_was_open(run):
    out = run("""
import sys, warnings
sys.path.insert(0, %r)
warnings.simplefilter("ignore")
import numpy, sluice, torch
from test_torch import Frames
writer = sluice.Writer("training", shape=(3, 8, 8), dtype="float32")
try:
    list(torch.utils.data.DataLoader(Frames("training", 8), num_workers=1, multiprocessing_context="fork"))
except sluice.ForkedError as error:
    assert "multiprocessing: use the spawn method" in str(error), error
    print("told")
writer.send(numpy.zeros((3, 8, 8), "f4"))
""" % HERE, env=FORKS)
    assert out == "told\n"


def test_without_workers():
    thread = threading.Thread(target=write, args=(1, 4))
    thread.start()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batches = list(torch.utils.data.DataLoader(Frames("training", 4), batch_size=2))
    thread.join()
    assert [batch[:, 0, 0, 0].tolist() for batch in batches] == [[0, 1], [2, 3]]


def test_the_example_that_writes_in_place():
    """A frame each; on a GPU if there is one for PyTorch."""
    example = pathlib.Path(__file__).parents[1] / "examples" / "torch_in_place.py"
    device = "cuda:0" if torch.cuda.is_available() else "host"
    done = subprocess.run([sys.executable, str(example), device], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [f"frame {number}" for number in range(1, 5)]
    assert done.stdout.startswith("frame 1: 0.731\nframe 2: 0.731\n")


def test_the_recipe_for_pytorch(tmp_path):
    for recipe in recipes.find("torch").values():
        recipes.run_on_host(tmp_path, recipe)
