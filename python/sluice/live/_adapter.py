# SPDX-License-Identifier: MIT
"""What the adapters of engines have in common."""
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

log = logging.getLogger("sluice.live")
Range = tuple[float, float]


def tensor(image: Any) -> Any:
    """The shot's image as PyTorch's tensor, in place: it is an array of NumPy where the device is host."""
    if type(image).__module__ != "numpy":
        return image
    import torch
    return torch.from_numpy(image)


def ranged(image: Any, now: Range, wanted: Range) -> Any:
    """The image with the values of another range; the same if it has them."""
    if tuple(now) == tuple(wanted):
        return image
    scale = (wanted[1] - wanted[0]) / (now[1] - now[0])
    return (image - now[0]) * scale + wanted[0]


class Parameters:
    """The parameters that a function of the engine takes by name. Any other is reported once."""

    def __init__(self, function: Callable[..., Any], elsewhere: Iterable[str] = ()) -> None:
        found = inspect.signature(function).parameters.values()
        self.any = any(each.kind is each.VAR_KEYWORD for each in found)
        self.names = [each.name for each in found if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL) and each.name != "self"]
        self.function = getattr(function, "__qualname__", type(function).__name__)
        self._said = set(elsewhere)  # those that are not for this function, which is known

    def __contains__(self, name: str) -> bool:
        return self.any or name in self.names

    def taken(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Those of `params` that it takes."""
        for name in params:
            if name not in self and name not in self._said:
                self._said.add(name)
                log.warning("params.%s: %s takes no such parameter; it takes %s", name, self.function, ", ".join(self.names))
        return {name: value for name, value in params.items() if name in self}
