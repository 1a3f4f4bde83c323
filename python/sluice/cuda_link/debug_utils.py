# SPDX-License-Identifier: MIT
"""How long work on a GPU takes, by events of PyTorch's: what cuda-link 1.1 has by these names."""
from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any

from .importer import TORCH_AVAILABLE

__all__ = ["ProfileSection", "TORCH_AVAILABLE", "benchmark_with_events"]

logger = logging.getLogger("cuda_link.debug_utils")


class _Span:
    """From one event on the current stream to another."""

    def __init__(self) -> None:
        import torch
        self.cuda = torch.cuda
        self.first, self.last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.cuda.synchronize()
        self.first.record()

    def end(self) -> float:
        """Milliseconds."""
        self.last.record()
        self.cuda.synchronize()
        return float(self.first.elapsed_time(self.last))


def benchmark_with_events(fn: Callable[..., Any], *args: Any, warmup: int = 3, iterations: int = 10, **kwargs: Any) -> float:
    """Milliseconds that a call takes on the GPU, on the average."""
    for _ in range(warmup):
        fn(*args, **kwargs)
    span = _Span()
    for _ in range(iterations):
        fn(*args, **kwargs)
    return span.end() / iterations


class ProfileSection:
    """with ProfileSection("encode"): the log says how long the GPU took."""

    def __init__(self, name: str, enabled: bool = True) -> None:
        import torch
        self.name, self.enabled = name, enabled and torch.cuda.is_available()
        self._span: _Span | None = None

    def __enter__(self) -> ProfileSection:
        self._span = _Span() if self.enabled else None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._span is not None:
            logger.debug("%s: %.1f ms", self.name, self._span.end())
