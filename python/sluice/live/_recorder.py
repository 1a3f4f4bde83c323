# SPDX-License-Identifier: MIT
"""Records named tensors of a running loop, one file for each run of the network, without holding the loop up."""
from __future__ import annotations

import atexit
import collections
import logging
import os
import pathlib
import queue
import sys
import threading
import zipfile
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import numpy as np

from ._relaxed import relaxed

RECORDS = "record-*.npz"
WAITING = 4  # records that may wait for the disk

log = logging.getLogger("sluice.live")


def save(path: pathlib.Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """As numpy.savez() does, but with any names, and under the file's own only when it is whole."""
    part = path.with_name(f"{path.name}.part")
    try:
        with zipfile.ZipFile(part, "w") as file:
            for name, array in arrays.items():
                with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


class _Part:
    """A tensor of a record: copied already, or by a GPU when `event` is reached, into a `buffer` of pinned memory."""

    def __init__(self, tensor: Any, event: Any = None, buffer: Any = None) -> None:
        self._tensor, self._event, self.buffer = tensor, event, buffer

    def wait(self) -> None:
        if self._event is not None:
            with relaxed():
                self._event.synchronize()

    def array(self) -> np.ndarray[Any, Any]:
        tensor = self._tensor
        if not isinstance(tensor, np.ndarray):
            try:
                tensor = tensor.numpy()
            except TypeError:  # bfloat16 and the like
                tensor = tensor.float().numpy()
        array: np.ndarray[Any, Any] = tensor
        return array if array.dtype.kind in "biuf" else array.astype(np.float32)


class Recorder:
    """Records every `every`-th run of a network, until the folder `where` has `limit` records. A restarted program goes on there.

        recorder.tap("sample", latents)
        recorder.tap("timestep", timestep)

    A tensor is NumPy's, or PyTorch's on the CPU or a GPU; its name is that of the model's input. A name that comes again begins the
    next run, as next() does. tap() waits for nothing: it copies, from a GPU on PyTorch's current stream into pinned memory, and a
    thread writes the files. A run for which there is no room, as the disk is behind or memory is not pinned yet, is left out and
    counted in `skipped`. If the disk is full, or writing fails otherwise, the log says so once and recording ends: what is recorded
    stays.

    Thread: that of the loop. close() waits until all is written; so does the end of the program."""

    def __init__(self, where: str | os.PathLike[str], every: int = 10, limit: int = 256) -> None:
        if every < 1 or limit < 1:
            raise ValueError(f"every={every}, limit={limit}: both must be at least 1")
        self._where, self._every, self._limit = pathlib.Path(where), every, limit
        self._where.mkdir(parents=True, exist_ok=True)
        there = [int(number) for path in self._where.glob(RECORDS) if (number := path.stem.partition("-")[2]).isdecimal()]
        self._number, self._left = max(there, default=-1) + 1, limit - len(there)
        self.records, self.skipped = len(there), 0
        self._run, self._names, self._most = 0, set[str](), 0
        self._record: dict[str, _Part] | None = {}  # of this run; None: it is not recorded
        self._whole, self._ended, self._failed, self._said = True, self._left <= 0, False, False
        self._free: dict[int, collections.deque[Any]] = {}  # pinned memory, by size
        self._work: queue.SimpleQueue[tuple[Callable[[Any], None], Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="sluice recorder", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    # ---- in the loop ----

    def tap(self, name: str, tensor: Any) -> None:
        """Records a tensor, if this run is recorded. Raises TypeError for what is no tensor."""
        if self._ended:
            return
        if name in self._names:
            self.next()
        self._names.add(name)
        if self._record is None:
            return
        part = self._copy(name, tensor)
        if part is None:
            self._whole = False
        else:
            self._record[name] = part

    def next(self) -> None:
        """What is tapped from now on belongs to the next run. Needed only if runs do not all begin with the same tensor."""
        if not self._names:
            return
        self._finish()
        self._run, self._names, self._record, self._whole = self._run + 1, set(), None, True
        if self._run % self._every == 0 and not self._ended:
            if self._work.qsize() < WAITING:
                self._record = {}
            else:
                self.skipped += 1

    def _finish(self) -> None:
        """Gives the record to the thread."""
        record, self._record = self._record, None
        self._most = max(self._most, len(self._names))
        if not record:
            self.skipped += not self._whole
        elif self._whole:
            self._work.put((self._write, record))
            self._left -= 1
            if not self._left:
                self._ended = True
                log.info("%s: %d records, as many as were asked for: recording has ended", self._where, self._limit)
        else:
            self.skipped += 1
            self._work.put((self._give_back, record))

    def _copy(self, name: str, tensor: Any) -> _Part | None:
        torch: Any = sys.modules.get("torch")
        if isinstance(tensor, np.ndarray) and tensor.dtype.kind in "biufV":
            return _Part(tensor.copy())
        if torch is not None and isinstance(tensor, torch.Tensor):
            if tensor.device.type == "cpu":
                return _Part(tensor.detach().clone())
            if tensor.device.type == "cuda":
                return self._copy_from_gpu(name, tensor.detach(), torch)
        raise TypeError(f"{name}: {type(tensor).__name__}{'' if not hasattr(tensor, 'dtype') else f' of {tensor.dtype}'} cannot be "
                        "recorded: pass an array of NumPy, or a tensor of PyTorch on the CPU or a GPU")

    def _copy_from_gpu(self, name: str, tensor: Any, torch: Any) -> _Part | None:
        with torch.cuda.device(tensor.device):
            if torch.cuda.is_current_stream_capturing():
                if not self._said:
                    log.warning("%s: %s is not recorded while a graph is captured: tap the graph's input beside its replay",
                                self._where, name)
                self._said = True
                return None
            size = tensor.numel() * tensor.element_size()
            free = self._free.setdefault(size, collections.deque())
            if not free:
                self._work.put((self._pin, size))
                return None
            buffer = free.popleft()
            target = buffer.view(tensor.dtype)
            if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
                target = target.as_strided(tensor.size(), tensor.stride())  # as it lies: one copy, and nothing on the GPU before it
            else:
                target = target.view(tensor.size())
            with relaxed():
                target.copy_(tensor, non_blocking=True)
                event = torch.cuda.Event(blocking=True)
                event.record()
        return _Part(target, event, buffer)

    # ---- on the thread ----

    def _serve(self) -> None:
        while item := self._work.get():
            if self._failed:
                continue
            call, argument = item
            try:
                call(argument)
            except Exception as error:
                self._failed = self._ended = True
                log.error("%s: recording has ended after %d records, which stay: %s", self._where, self.records, error)

    def _write(self, record: dict[str, _Part]) -> None:
        for part in record.values():
            part.wait()
        save(self._where / f"record-{self._number:06}.npz", {name: part.array() for name, part in record.items()})
        self._number += 1
        self.records += 1
        self._give_back(record)

    def _give_back(self, record: dict[str, _Part]) -> None:
        for part in record.values():
            if part.buffer is not None:
                part.wait()
                self._free[part.buffer.numel()].append(part.buffer)

    def _pin(self, size: int) -> None:
        """Here, as it takes long."""
        with relaxed():
            self._free[size].append(sys.modules["torch"].empty(size, dtype=sys.modules["torch"].uint8, pin_memory=True))

    # ---- the end ----

    def close(self) -> None:
        """Writes what is recorded, but no run that was left half way. Again does nothing."""
        atexit.unregister(self.close)
        if self._record and len(self._names) >= self._most:
            self._finish()
        self._ended, self._record = True, None
        self._work.put(None)
        self._thread.join()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
