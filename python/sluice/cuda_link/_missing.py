# SPDX-License-Identifier: MIT
"""What of cuda-link is not here, and what to do instead."""
from __future__ import annotations

from typing import NoReturn

NOT_HERE = {
    "FakeCUDAAdapter": "Sluice asks the driver itself, through no adapter, so there is none to put in its place: test with a channel in "
                       "host memory (sluice.Writer), or on a machine with a GPU; docs/from-cuda-link.md has more",
}


def __getattr__(name: str) -> NoReturn:
    """ImportError, for `from cuda_link import ...` says what an AttributeError said in words of its own."""
    if name in NOT_HERE:
        raise ImportError(f"sluice.cuda_link has no {name}: {NOT_HERE[name]}", name="sluice.cuda_link")
    raise AttributeError(f"module 'sluice.cuda_link' has no attribute '{name}'")
