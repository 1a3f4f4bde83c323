# SPDX-License-Identifier: MIT
"""Settings from the environment, as cuda-link 1.5 and later reads them."""
from __future__ import annotations

import os


def env_bool(name: str, *, default: bool) -> bool:
    """"1" is true, all else false; unset is `default`."""
    value = os.environ.get(name)
    return default if value is None else value == "1"


def env_int(name: str, *, default: int, least: int | None = None, most: int | None = None) -> int:
    """`default` also for a value that is not a number or out of range: a variable must not end a program."""
    try:
        number = int(os.environ.get(name, default))
    except ValueError:
        return default
    if (least is not None and number < least) or (most is not None and number > most):
        return default
    return number


def env_str(name: str, *, default: str) -> str:
    return os.environ.get(name, default)
