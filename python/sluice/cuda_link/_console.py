# SPDX-License-Identifier: MIT
"""What cuda-link's examples take from its module of this name: a console of Windows that closes ends them in order. Here Ctrl+C
does that, and there is nothing to install."""
from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["ConsoleShutdownState", "install_console_ctrl_handler", "run_with_watchdog"]


@dataclass
class ConsoleShutdownState:
    """How the console has ended the program: on Windows alone."""

    shutdown_via: str | None = None
    stop_requested: bool = False


def install_console_ctrl_handler(prefix: str, on_cleanup: Callable[[], None], *,
                                 defer_close: bool = False) -> ConsoleShutdownState:
    """Of Windows: here the state stays as it is, and `on_cleanup` is the program's to call."""
    return ConsoleShutdownState()


def run_with_watchdog(fn: Callable[[], None], timeout_s: float, label: str, prefix: str) -> None:
    """Calls `fn` on a thread, and waits for its end, so long at most; says so if it has not come."""
    thread = threading.Thread(target=fn, daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        print(f"{prefix} {label} takes longer than {timeout_s:g} s: it is left alone", flush=True)
