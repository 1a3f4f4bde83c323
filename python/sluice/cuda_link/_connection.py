# SPDX-License-Identifier: MIT
"""IPCConnection: what an importer is connected to."""
from __future__ import annotations

from ctypes import c_void_p
from dataclasses import dataclass
from typing import Any

from .shm_protocol import SHMLayout

__all__ = ["IPCConnection"]


@dataclass
class IPCConnection:
    """A session as it was when Importer.connection was asked. Only to be looked at: what is open is the importer's, so events
    and handles are None here, and close() forgets the addresses."""

    cuda: Any
    shm_handle: Any
    ipc_version: int
    num_slots: int
    ipc_handles: list[Any]
    dev_ptrs: list[c_void_p | None]
    ipc_events: list[Any]
    layout: SHMLayout
    shutdown_offset: int
    timestamp_offset: int
    doorbell_handle: Any = None

    @classmethod
    def of(cls, info: dict[str, Any], cuda: Any) -> IPCConnection:
        """What a reader says of its channel."""
        slots, layout = info["slots"], SHMLayout(info["slots"])
        return cls(cuda, None, info["version"], slots, [None] * slots, [c_void_p(each) for each in info["addresses"]],
                   [None] * slots, layout, layout.shutdown_offset, layout.timestamp_offset)

    def close_ipc_handles(self) -> None:
        """The importer's stay open."""
        self.dev_ptrs = [None] * self.num_slots

    def close(self) -> None:
        """The importer stays connected."""
        self.close_ipc_handles()
