# SPDX-License-Identifier: MIT
"""Recording what lies on a GPU: what the stream had at that point, without waiting for it, beside captures in global mode."""
import numpy as np
import pytest

from needs import torch
from sluice.live.calibrate import CalibrationSet, Recorder
from test_real_captures import Capturing
from work import DEVICE, eventually

RUNS = 12


def tensors():
    """Of every kind of layout and type that networks take."""
    numbers = torch.arange(2 * 3 * 4 * 8, device=DEVICE).reshape(2, 3, 4, 8)
    return {"plain": numbers.float(), "half": numbers.half().to(memory_format=torch.channels_last),
            "brain": numbers[:1, :2].bfloat16(), "cut": numbers.float()[:, :, 1:3, ::2], "step": numbers[0, 0, 0].clone(),
            "gradient": numbers.float().requires_grad_()}


def tap(recorder, these, number):
    """One run, after which the memory is used for something else."""
    for each in these.values():
        each.detach().add_(number)
    for name, each in these.items():
        recorder.tap(name, each)
    recorder.tap("number", np.array([number]))
    for each in these.values():
        each.detach().sub_(number)


def warm_up(recorder, these):
    """The first run finds no pinned memory, and asks for it."""
    tap(recorder, these, 0)
    recorder.next()
    assert eventually(lambda: all(recorder._free.values()))


def check(where, these, count):
    records = [dict(np.load(path)) for path in CalibrationSet.load(where)._records]
    assert len(records) == count
    for arrays in records:
        number = int(arrays.pop("number")[0])
        assert arrays.keys() == these.keys()
        for name, each in these.items():
            wanted = each.detach() + number
            assert np.array_equal(arrays[name], (wanted.float() if wanted.is_floating_point() else wanted).cpu().numpy()), name


def test_a_tap_does_not_wait_for_the_gpu(tmp_path, gpu):
    these, stream = tensors(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream), Recorder(tmp_path, every=1) as recorder:
        warm_up(recorder, these)
        gate = gpu.gate(stream.cuda_stream)
        tap(recorder, these, 7)
        recorder.next()
        assert not stream.query() and recorder.records == 0
        gate.open()
        assert eventually(lambda: recorder.records == 1)
    check(tmp_path, these, 1)


@pytest.mark.parametrize("warm", [False, True])
def test_taps_break_no_capture(tmp_path, warm):
    these, stream = tensors(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        tap(Recorder(tmp_path / "other"), these, 0)  # PyTorch's first operations allocate, which is its own rule
        stream.synchronize()
        with Recorder(tmp_path / "calib", every=1) as recorder:
            if warm:
                warm_up(recorder, these)
            with Capturing() as other:
                number = 0
                while recorder.records < RUNS:
                    number += 1
                    tap(recorder, these, number)
                    before = other.done
                    assert eventually(lambda: other.done > before or other.errors) and not other.errors
            recorder.next()
        count = recorder.records
    check(tmp_path / "calib", these, count)


def test_within_a_capture_it_is_said_and_nothing_is_broken(tmp_path, caplog):
    tensor, graph = torch.ones((1, 4), device=DEVICE), torch.cuda.CUDAGraph()
    with Recorder(tmp_path, every=1) as recorder:
        with torch.cuda.graph(graph):
            for _ in range(2):
                recorder.tap("sample", tensor)
            result = tensor + 1
        graph.replay()
        assert result.cpu().tolist() == [[2.0] * 4] and recorder.records == 0
    said, = (each.getMessage() for each in caplog.records)
    assert said == f"{tmp_path}: sample is not recorded while a graph is captured: tap the graph's input beside its replay"
