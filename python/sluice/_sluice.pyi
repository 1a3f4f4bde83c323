# SPDX-License-Identifier: MIT
"""The extension; what it has is exported by the package."""
from typing import Any

from . import Closed as Closed
from . import Timeout as Timeout

def _describe(array: Any, /) -> tuple[str, tuple[int, ...]]: ...
