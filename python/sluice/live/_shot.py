# SPDX-License-Identifier: MIT
"""What the program of a live loop has in its hands for one run of the engine."""
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ._session import Live


class Control(NamedTuple):
    image: Any  # the tensor (1, 3, height, width) that keeps its address
    scale: Any  # a tensor without dimensions: how strongly it acts; 0 while it is off, missing or stale
    on: bool  # whether it acts


class Shot:
    """One run of the engine. `with shot:` around it treats its exceptions as the setting on_error says."""

    def __init__(self, live: "Live", number: int, params: dict[str, Any], changed: dict[str, Any], rebuild: bool, meta: Any,
                 frame_numbers: tuple[int, ...], new: bool) -> None:
        self._live = live
        self.number = number  # 1, 2, 3...
        self.input = live.input
        self.params = params  # those of the settings, and those that the frame's metadata brings
        self.changed = changed  # parameters that are not as in the last shot; all of them in the first, and after a rebuild
        self.rebuild = rebuild  # the tensors are new ones, or the engine's arguments have changed
        self.meta = meta  # of the frame: what its JSON says, bytes if it is no JSON, None if there is none
        self.frame_numbers = frame_numbers  # sequences of the frames in the input; none if it is black
        self.new = new  # False if the last shot showed the same
        self.sent: bool | None = None  # None until send() is called
        self.failed = False

    def control(self, name: str) -> Control:
        control = self._live._links.controls.get(name)
        if control is None:
            raise KeyError(f"there is no control {name}: there are {', '.join(self._live.controls) or 'none'}")
        return Control(control.picture.tensor, control.scale, control.on)

    def send(self, picture: Any) -> bool:
        """Queues the picture's conversion into the output's slot and its commit, behind the engine's work. -> whether it was sent

        `picture` is a tensor (1, 3, height, width) or (3, height, width) on the loop's device; of a batch each is sent. None, or no
        call at all, skips the shot."""
        if self.sent is not None:
            raise RuntimeError(f"shot {self.number} was sent already")
        self.sent = picture is not None and self._live._send(picture)
        return self.sent

    def __enter__(self) -> "Shot":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self.failed = True
        return self._live._goes_on(error)
