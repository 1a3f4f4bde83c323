# SPDX-License-Identifier: MIT
"""What arguments must be, said with their names before anything is made of them."""
from __future__ import annotations

import math
import operator
from typing import Any

from .shm_protocol import DtypeCodec

_MOST_SLOTS = 10
_U32 = (1 << 32) - 1
_ADDRESSES = 1 << 64

LONGEST_NS = (1 << 63) - 1
LONGEST_SPIN_US = LONGEST_NS // 1000
MOST_FRAMES = _U32


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """A whole number of this range, also one of NumPy's."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: it must be a whole number") from None
    if number < least or (most is not None and number > most):
        raise ValueError(f"{name} is {number}: it must be {least} to {most}" if most is not None else
                         f"{name} is {number}: it must be {least} or more")
    return number


def milliseconds(name: str, value: Any) -> float:
    try:
        number = float(value) if not isinstance(value, str) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if math.isnan(number):
        raise (ValueError if isinstance(value, float) else TypeError)(f"{name} is {value!r}: it must be a number of milliseconds")
    return number


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}: it must be the channel's name, a str")
    if "\0" in value:
        raise ValueError(f"{name} is {value!r}: the name of a channel has no null character")
    return value


def of_kind(name: str, value: Any, kind: type, attribute: str) -> None:
    """Another class with the same attributes will do."""
    if not hasattr(value, attribute):
        raise TypeError(f"{name} is {value!r}: it must be {'an' if kind.__name__[0] in 'EI' else 'a'} {kind.__name__}")


def dtype(name: str, value: Any) -> None:
    if value not in DtypeCodec.supported():
        raise ValueError(f"there is no {name} {value!r}: it must be one of {', '.join(DtypeCodec.supported())}")


def frame_spec(spec: Any) -> None:
    text("shm_name", spec.shm_name)
    dtype("dtype", spec.dtype)
    whole("num_slots", spec.num_slots, 1, _MOST_SLOTS)
    for name in ("height", "width", "channels"):
        whole(name, getattr(spec, name), 1, _U32)
    whole("device", spec.device, 0)
    whole("extra_flags", spec.extra_flags, 0, 0xffff)


def export_policy(policy: Any) -> None:
    whole("barrier_stale_ns", policy.barrier_stale_ns, -(1 << 127))


def import_spec(spec: Any) -> None:
    text("shm_name", spec.shm_name)
    whole("device", spec.device, 0)
    milliseconds("timeout_ms", spec.timeout_ms)
    if spec.dtype is not None and not isinstance(spec.dtype, str) and not any(spec.dtype == each for each in DtypeCodec.supported()):
        raise TypeError(f"dtype is {spec.dtype!r}: it must be a name, such as 'uint8', or None for the channel's own")
    if spec.shape is not None:
        try:
            sizes = tuple(spec.shape)
        except TypeError:
            sizes = ()
        if len(sizes) not in (2, 3) or isinstance(spec.shape, str):
            raise TypeError(f"shape is {spec.shape!r}: it must be (height, width, channels), or None for the channel's own")
        for each in sizes:
            whole("shape", each, 1)


def import_policy(policy: Any) -> None:
    whole("wait_spin_us", policy.wait_spin_us, -LONGEST_SPIN_US, LONGEST_SPIN_US)
    whole("gpu_wait_adaptive_window", policy.gpu_wait_adaptive_window, -MOST_FRAMES, MOST_FRAMES)
    whole("gpu_wait_adaptive_sleep_pct", policy.gpu_wait_adaptive_sleep_pct, -100, 100)


def address(name: str, value: Any, what: str) -> int:
    """Of an int, a c_void_p, or another with such a `value`; nothing is the address 0."""
    inner = getattr(value, "value", value)
    if inner is None:
        return 0
    try:
        number = operator.index(inner)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: it must be {what}, as an int") from None
    if not 0 <= number < _ADDRESSES:
        raise ValueError(f"{name} is {number}: it must be {what}, of 64 bits")
    return number
