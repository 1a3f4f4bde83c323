# SPDX-License-Identifier: MIT
"""The extension; what it has is exported by the package."""
from typing import Any

from . import Closed as Closed
from . import Stream as Stream
from . import Timeout as Timeout
from . import UnsupportedError as UnsupportedError
from . import current_stream as current_stream

def _describe(array: Any, /) -> tuple[str, tuple[int, ...]]: ...
def _pinned() -> tuple[int, int]: ...
def _forget() -> None: ...
