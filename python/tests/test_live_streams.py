# SPDX-License-Identifier: MIT
"""The stream of a loop whose tensors are PyTorch's outlives it, and is the next loop's. The real ones: gpu/test_real_live_session.py."""
import sluice
from sluice.live import _tensors


def test_streams_of_ended_loops_are_used_again(gpu, monkeypatch):
    monkeypatch.setattr(_tensors, "_spare", {})
    memory = object.__new__(_tensors.TorchMemory)
    memory.device = gpu.device
    first = memory.stream()
    second = memory.stream()
    assert first != second
    memory.let_go(first)
    assert not first.closed and memory.stream() == first
    for each in first, second:
        memory.let_go(each)
    sluice.reset(gpu.device)
    fresh = memory.stream()
    assert fresh not in (first, second) and not fresh.closed
    assert _tensors._spare == {gpu.device: []}
