# SPDX-License-Identifier: MIT
"""Runs an engine on live frames: takes the newest input and its control images, and sends the result."""
from ._session import Live
from ._shot import Control, Shot

__all__ = ["Control", "Live", "Shot"]
