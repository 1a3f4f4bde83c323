# SPDX-License-Identifier: MIT
"""Settings from the environment, as cuda-link 1.5 and later reads them."""
from __future__ import annotations

import os


def env_bool(name: str, *, default: bool) -> bool:
    """"1" is true, all else false; unset is `default`."""
    value = os.environ.get(name)
    return default if value is None else value == "1"


def env_int(name: str, *, default: int) -> int:
    """`default` also for what is no number."""
    try:
        return int(os.environ.get(name, default))
    except ValueError:
        return default


def env_str(name: str, *, default: str) -> str:
    return os.environ.get(name, default)
