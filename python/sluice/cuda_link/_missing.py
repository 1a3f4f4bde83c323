# SPDX-License-Identifier: MIT
"""What of cuda-link is not here, and what to do instead."""
from __future__ import annotations

import dis
import sys
from typing import NoReturn

NOT_HERE = {
    "FakeCUDAAdapter": "Sluice asks the driver itself, through no adapter, so there is none to put in its place: test with a channel in "
                       "host memory (sluice.Writer), or on a machine with a GPU; docs/from-cuda-link.md has more",
}


def _is_imported() -> bool:
    """Whether `from ... import` asks, and not hasattr() or an expression."""
    frame = sys._getframe(1).f_back
    if not frame:  # a program in C asks
        return False
    code = frame.f_code
    return code.co_name == "_handle_fromlist" or code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]


def __getattr__(name: str) -> NoReturn:
    """AttributeError, so that hasattr() says False; ImportError to who imports it: there Python would put words of its own in the
    place of an AttributeError's."""
    if name in NOT_HERE:
        told = f"sluice.cuda_link has no {name}: {NOT_HERE[name]}"
        if _is_imported():
            raise ImportError(told, name="sluice.cuda_link")
        raise AttributeError(told, name=name)
    raise AttributeError(f"module 'sluice.cuda_link' has no attribute '{name}'")
