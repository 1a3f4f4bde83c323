# SPDX-License-Identifier: MIT
"""The tensors that an engine reads, and the conversion of frames into them and of pictures out of them."""
import contextlib
import importlib
from collections.abc import Mapping
from typing import Any

import sluice

from ._relaxed import relaxed

FITS: dict[str, Any] = {"stretch": "stretch", "cover": "cover", "contain": "inside"}  # words of the settings, and of sluice.convert
FILTERS: dict[str, Any] = {"auto": "smooth"}
_spare: dict[str, list[sluice.Stream]] = {}  # by device: streams of loops that have ended, for the next ones


class ArrayMemory:
    """NumPy's on the host; on a GPU CuPy's, which has the same names. What it does there is queued on the current stream."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._arrays = importlib.import_module("numpy" if device == "host" else "cupy")

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Any:
        if dtype == "bfloat16":
            raise ValueError("dtype: bfloat16 needs PyTorch and a GPU: take float16 or float32")
        if self.device == "host":
            return self._arrays.zeros(shape, dtype)
        with relaxed(), self._arrays.cuda.Device(int(self.device.partition(":")[2])):
            return self._arrays.zeros(shape, dtype)

    def pinned(self, shape: tuple[int, ...], dtype: str) -> Any:
        """A NumPy array that a GPU reads and writes while the CPU goes on."""
        if self.device == "host":
            return self._arrays.zeros(shape, dtype)
        with relaxed():
            return importlib.import_module("cupyx").zeros_pinned(shape, dtype)

    def stream(self) -> sluice.Stream:
        return sluice.Stream(self.device)

    def let_go(self, stream: sluice.Stream) -> None:
        """Of what stream() gave, at the end of the loop."""
        stream.close()

    def current(self, stream: sluice.Stream) -> Any:
        """Makes it the framework's current stream."""
        return contextlib.nullcontext() if self.device == "host" else stream.to_cupy()

    def fill(self, tensor: Any, value: float) -> None:
        tensor.fill(value)

    def copy(self, to: Any, tensor: Any) -> None:
        if self.device != "host" and hasattr(tensor, "__array_interface__"):
            to.set(tensor)
        else:
            to[...] = tensor

    def clamp(self, tensor: Any, least: float, most: float, black: float) -> None:
        """What is not a number becomes black."""
        self._arrays.nan_to_num(tensor, copy=False, nan=black, posinf=most, neginf=least)
        self._arrays.clip(tensor, least, most, out=tensor)

    def count_nan(self, picture: Any, into: Any) -> None:
        """Queues how many of its values are no numbers, into what pinned() gave."""
        if self.device == "host":
            into[0] = self._arrays.isnan(picture).sum()
        elif isinstance(picture, self._arrays.ndarray):
            with relaxed():
                self._arrays.isnan(picture).sum(dtype="float32", keepdims=True).reshape(1).get(out=into, blocking=False)


class TorchMemory:
    """PyTorch's, on a GPU, likewise."""

    def __init__(self, device: str) -> None:
        import torch
        if torch.version.cuda is None:
            raise ModuleNotFoundError("this PyTorch was built without CUDA")
        self._torch: Any = torch
        self.device: str = device

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Any:
        with relaxed():
            return self._torch.zeros(shape, dtype=getattr(self._torch, dtype), device=self.device)

    def pinned(self, shape: tuple[int, ...], dtype: str) -> Any:
        with relaxed():
            return self._torch.zeros(shape, dtype=getattr(self._torch, dtype), pin_memory=True).numpy()

    def stream(self) -> sluice.Stream:
        """PyTorch ends the process if a stream is gone when pinned memory is freed that was copied on it. So they are never ended."""
        spare = _spare.setdefault(self.device, [])
        while spare:
            with contextlib.suppress(sluice.StaleHandleError, IndexError):  # a reset of the device leaves none
                stream = spare.pop()
                if stream.native:
                    return stream
        return sluice.Stream(self.device)

    def let_go(self, stream: sluice.Stream) -> None:
        _spare[self.device].append(stream)

    def current(self, stream: sluice.Stream) -> Any:
        return self._torch.cuda.stream(stream.to_torch())

    def fill(self, tensor: Any, value: float) -> None:
        tensor.fill_(value)

    def copy(self, to: Any, tensor: Any) -> None:
        with relaxed():
            to.copy_(tensor if hasattr(tensor, "detach") else self._torch.from_numpy(tensor), non_blocking=True)

    def clamp(self, tensor: Any, least: float, most: float, black: float) -> None:
        with relaxed():
            self._torch.nan_to_num(tensor, nan=black, posinf=most, neginf=least, out=tensor)
            tensor.clamp_(least, most)

    def count_nan(self, picture: Any, into: Any) -> None:
        if hasattr(picture, "detach"):
            with relaxed():
                self._torch.from_numpy(into).copy_(picture.isnan().sum(), non_blocking=True)


def memory_of(device: str) -> Any:
    """NumPy's memory on the host; PyTorch's on a GPU, or CuPy's where that is not installed."""
    if device == "host":
        return ArrayMemory(device)
    for kind in TorchMemory, ArrayMemory:
        try:
            return kind(device)
        except ModuleNotFoundError:
            pass
    raise ModuleNotFoundError(f"device: tensors on {device} need PyTorch or CuPy: install one of them, or take device: host")


class Picture:
    """A tensor that keeps its address, (count, 3, height, width), and what brings frames into it."""

    def __init__(self, memory: Any, count: int, size: tuple[int, int], dtype: str, ahead: int) -> None:
        self.count = count
        self.ahead = ahead  # shots that may be unfinished
        self._memory = memory
        self._host = sluice.Stream("host")  # for what happens in host memory while a GPU's stream is current
        shape = count, 3, size[1], size[0]
        self.tensor = memory.zeros(shape, dtype)
        # sluice.convert has no bfloat16: it goes by way of float32
        self._floats = memory.zeros(shape, "float32") if dtype == "bfloat16" else self.tensor
        self._dtype = "float32" if dtype == "bfloat16" else dtype
        self._whole = count == 1 and self._floats is self.tensor
        self._settings: Mapping[str, Any] | None = None  # those that are in _how
        self._how: dict[str, Any] = {}
        self._uploads: list[Any] = []  # pinned, for frames in host memory of a tensor on a GPU

    def black(self, low: float) -> None:
        self._memory.fill(self.tensor, low)

    def put(self, frame: sluice.Frame, settings: Mapping[str, Any], at: int = 0) -> sluice.Area:
        """Queues the conversion of a frame, which may be released then. Raises what sluice.convert does."""
        image, (low, high) = frame[0], settings["range"]
        if settings is not self._settings:
            self._settings, self._how = settings, {
                "fit": FITS[settings["fit"]], "filter": FILTERS.get(settings["filter"], settings["filter"]), "border": settings["fill"],
                "scale": high - low, "bias": low}
        how = self._how
        if flip := _flip(image, settings["flip"]):
            how = {**how, "flip": flip}
        place = to = self.tensor if self._whole else self._floats[at:at + 1]
        uploads = image.device == "host" != self._memory.device
        if uploads:
            to, how = self._upload(), {**how, "stream": self._host}
        if settings["order"] == "bgra" and image.pixel_format is None and image.ndim == 3 and image.shape[2] >= 3:
            area = _swapped(to, frame, how)
        else:
            area = sluice.convert(to, frame, **how)
        if uploads:
            self._memory.copy(place, to)
        if "float" in image.dtype:
            self._memory.clamp(place, min(low, high), max(low, high), low)
        if self._floats is not self.tensor:
            self._memory.copy(self.tensor[at:at + 1], place)
        return area

    def repeat(self, at: int) -> None:
        """The rest of a block is the last frame before `at`."""
        for rest in range(at, self.count):
            self._memory.copy(self.tensor[rest:rest + 1], self.tensor[at - 1:at])

    def _upload(self) -> Any:
        """The buffer that has not been used for longest: as many shots may be unfinished, each with a block of frames."""
        if len(self._uploads) < (self.ahead + 1) * self.count:
            self._uploads.append(self._memory.pinned((1, *self.tensor.shape[1:]), self._dtype))
        else:
            self._uploads.append(self._uploads.pop(0))
        return self._uploads[-1]


def _flip(image: sluice.Array, flip: str) -> Any:
    """sluice.convert turns pictures that say how their rows run; `none` leaves the rows as they lie."""
    upside_down = image.pixel_format is not None and image.row_order == "bottom-up"
    return "vertical" if flip == "vertical" or (flip == "none" and upside_down) else None


def _swapped(to: Any, frame: sluice.Frame, how: Mapping[str, Any]) -> sluice.Area:
    """Of an array that is no image and has BGR: one channel after another, as `order` would count for both sides."""
    pixels = frame.numpy() if frame.device == "host" else frame.view()
    for channel in range(3):
        area = sluice.convert(to[0, channel], pixels[..., 2 - channel], **how)
    return area


class Sender:
    """What brings an engine's pictures into slots."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self._floats: dict[tuple[int, ...], Any] = {}  # of pictures in bfloat16, by shape
        self._is_bfloat16: dict[Any, bool] = {}  # by type of PyTorch's: a text takes longer than all else here

    def pictures(self, picture: Any) -> list[Any]:
        """What sluice.convert takes: the picture, or those of a batch."""
        if hasattr(picture, "detach"):
            picture = self._of_torch(picture.detach() if picture.requires_grad else picture)
        if len(picture.shape) < 4:
            return [picture]
        return [picture[at:at + 1] for at in range(len(picture))] if len(picture) > 1 else [picture]

    def _of_torch(self, picture: Any) -> Any:
        if picture.dtype not in self._is_bfloat16:
            self._is_bfloat16[picture.dtype] = str(picture.dtype) == "torch.bfloat16"
        if self._is_bfloat16[picture.dtype]:
            shape = tuple(picture.shape)
            if shape not in self._floats:
                self._floats = {shape: self.memory.zeros(shape, "float32")}
            self.memory.copy(self._floats[shape], picture)
            return self._floats[shape]
        if len(picture.shape) == 4 and picture.shape[1] in (3, 4) and picture.stride(1) == 1:
            return picture.permute(0, 2, 3, 1)  # channels last
        return picture


def size_of(picture: Any) -> tuple[int, int]:
    """Width and height of a tensor: its channels are first or last."""
    first, second, third = [1, 1, 1, *map(int, picture.shape)][-3:]
    return (third, second) if first in (1, 3, 4) else (second, first)
