# SPDX-License-Identifier: MIT
"""All links of a loop, and the tensors that they fill."""
from collections.abc import Mapping
from typing import Any

from ._control import ControlLink
from ._counters import Counters
from ._input import InputLink
from ._outputs import OutputLink, PreviewLink
from ._settings import REBUILD, RELINK, Settings
from ._tensors import Picture, Sender

TENSORS = ("size", "dtype", "input.frames", "input.take")  # what makes the tensors new


class Links:
    def __init__(self, settings: Settings, device: str, memory: Any, counters: Counters) -> None:
        """Opens them. Raises what a wrong name or a lack of permission does."""
        self._settings, self._device, self._memory, self._counters = settings, device, memory, counters
        sender = Sender(memory)
        self.input = InputLink("input", settings.input, device)
        self.output = OutputLink("output", settings.output, device, sender)
        self.preview = PreviewLink("preview", settings.preview, device, sender)
        self.controls: dict[str, ControlLink] = {}
        counters.links.update(input=self.input.counters, output=self.output.counters, preview=self.preview.counters)
        self._make_tensors()
        self._make_controls()
        for link in (self.input, *self.controls.values()):
            link.open()
        self._open_output()

    def _make_tensors(self) -> None:
        input_ = self._settings.input
        self.input.renew(self._picture(input_.frames if input_.take == "block" else 1))
        for control in self.controls.values():
            control.renew(self._picture(1))

    def _picture(self, count: int) -> Picture:
        settings = self._settings
        return Picture(self._memory, count, (settings.size[0], settings.size[1]), settings.dtype, settings.ahead)

    def _make_controls(self) -> list[ControlLink]:
        """Ends those that are not in the settings any more, and makes the new ones. -> these"""
        wanted, made = self._settings.controls, []
        for name in [name for name in self.controls if name not in wanted]:
            self.controls.pop(name).close()
            self._counters.links.pop(name)
        for name in wanted:
            if name not in self.controls:
                self.controls[name] = control = ControlLink(name, wanted[name], self._device, self._memory)
                control.renew(self._picture(1))
                self._counters.links[name] = control.counters
                made.append(control)
        return made

    def _open_output(self) -> None:
        size = self._settings.output.size  # of the input's size only a picture knows
        self.output.open(tuple(self._settings.size if isinstance(size, str) else size))

    def adopt(self, settings: Settings, when: Mapping[str, str]) -> bool:
        """Other settings: `when` says which differ. -> whether the engine is to be built again"""
        self._settings = settings
        tensors = any(path in when for path in TENSORS)
        if tensors:
            self._make_tensors()
        made = self._make_controls()
        links = {"input.": self.input, **{f"controls.{name}.": link for name, link in self.controls.items()}}
        again = [path for path, how in when.items() if how in (RELINK, REBUILD)]
        for section, link in links.items():
            wanted = settings.input if link is self.input else settings.controls[link.health.name]
            link.picture.ahead = settings.ahead
            link.adopt(wanted, tensors or link in made or any(path.startswith(section) for path in again))
        self.output.adopt(settings.output)
        self.preview.adopt(settings.preview)
        self._open_output()
        return tensors or REBUILD in when.values()

    def take_controls(self) -> None:
        for control in self.controls.values():
            control.take(self.input)

    def close(self) -> None:
        for link in (self.input, *self.controls.values()):
            link.close()
        for out in (self.output, self.preview):
            out.close()
