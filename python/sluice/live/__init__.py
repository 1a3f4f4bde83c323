# SPDX-License-Identifier: MIT
"""Runs an engine on live frames: takes the newest input and its control images, and sends the result."""
import sys

if sys.version_info < (3, 10):
    raise ImportError(f"sluice.live needs Python 3.10 or newer, and this is {sys.version.split()[0]}")

from ._session import Live
from ._shot import Control, Shot

__all__ = ["Control", "Live", "Shot"]
